#include "composer/logging/growing_file.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "composer/error.h"
#include "tests/composer/largest_file.h"
#include "tests/composer/temporary_folder.h"

using namespace composer;
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

TEST_CASE("what waits for room is bounded, and what is too much counted", "[logging]") {
  const TemporaryFolder folder;
  GrowingFile file;
  file.open(folder / "lines", /*fresh=*/true);
  const std::string piece(32 << 20, 'x');
  for (int i = 0; i < 3; ++i) file.add(piece);
  CHECK_THROWS_WITH(file.finish(), "1 records are missing");
  CHECK(std::filesystem::file_size(folder / "lines") == 2 * piece.size());
}
