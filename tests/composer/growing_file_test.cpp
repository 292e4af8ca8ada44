#include "composer/logging/growing_file.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "composer/logging/sinks.h"
#include "tests/base/largest_file.h"
#include "tests/temporary_folder.h"

namespace composer::growing_file_test {

using Catch::Contains;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("pieces that a full disk does not take follow whole and in order", "[logging]") {
  const TemporaryFolder folder;
  const auto path = folder.write("lines", "before\n");
  GrowingFile file;
  file.open(path, /*fresh=*/false);
  file.add("first\n"), file.add("second\n");
  {
    const LargestFile limit(15);
    CHECK_THROWS_WITH(file.write(), Contains("lines: cannot be written: File too large"));
    CHECK(content(path) == "before\nfirst\n");
    file.add("third\n");
    CHECK_THROWS_AS(file.write(), RunError);
    CHECK_THROWS_WITH(file.finish(), Contains("2 records are missing"));
  }
  file.write();
  file.add("fourth\n");
  file.finish();
  CHECK(content(path) == "before\nfirst\nsecond\nthird\nfourth\n");
}

TEST_CASE("a file that could not be opened is opened once it can be", "[logging]") {
  const TemporaryFolder folder;
  const auto path = folder / "later/lines";
  GrowingFile file;
  CHECK_THROWS_WITH(file.open(path, /*fresh=*/false), Contains("No such file"));
  file.add("first\n");
  CHECK_THROWS_AS(file.write(), RunError);
  std::filesystem::create_directory(folder / "later");
  file.finish();
  CHECK(content(path) == "first\n");
}

TEST_CASE("lines of an earlier process that cannot be read are not taken for none",
          "[logging][resume]") {
  const TemporaryFolder folder;
  std::string lines;
  const auto read = [&](const char* name) {
    for_earlier_lines(folder / name, [&](const std::string& line) { lines += line + ";"; });
  };
  read("none");
  folder.write("some", "a\nb\nc");
  read("some");
  CHECK(lines == "a;b;c;");
  std::filesystem::create_directory(folder / "metrics.jsonl");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK_THROWS_WITH(read("metrics.jsonl"),
                    Contains("is there, but cannot be read: Is a directory"));
  CHECK_THROWS_WITH(read("loop"), Contains("cannot be read: Too many levels"));
  RunInfo resumed;
  resumed.folder = folder.path(), resumed.start.batch = 4;
  CHECK_THROWS_WITH(JsonlSink().open(resumed), Contains("metrics.jsonl: is there, but"));
}

TEST_CASE("what waits for room is bounded, and what is too much counted", "[logging]") {
  const TemporaryFolder folder;
  GrowingFile file;
  file.open(folder / "lines", /*fresh=*/true);
  const std::string piece(32 << 20, 'x');
  for (int i = 0; i < 3; ++i) file.add(piece);
  CHECK_THROWS_WITH(file.finish(), "1 records are missing");
  CHECK(std::filesystem::file_size(folder / "lines") == 2 * piece.size());
}

}  // namespace composer::growing_file_test
