#include <catch2/catch.hpp>
#include <chrono>

#include "data/jpeg/jpeg.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/pillow.h"

namespace composer::odd_files_test {

using namespace composer::test;

namespace {

struct OddFile {
  std::string path, status, mode;
};

std::vector<OddFile> read_index(const fs::path& odd) {
  std::ifstream index(odd / "INDEX.tsv");
  std::string line;
  std::getline(index, line);
  std::vector<OddFile> files;
  while (std::getline(index, line)) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
    files.push_back({(odd / fields.at(0)).string(), fields.at(2), fields.at(4)});
  }
  return files;
}

}  // namespace

TEST_CASE("odd files decode as Pillow decodes them, or are refused with a reason", "[data]") {
  const fs::path odd = shared_data() / "odd";
  if (!fs::exists(odd)) {
    WARN("skipped: no ../shared/data/odd");
    return;
  }
  const auto files = read_index(odd);
  CHECK(files.size() > 60);
  std::vector<std::string> good;
  for (const auto& file : files) {
    if (file.status == "ok") good.push_back(file.path);
  }
  const auto expected = pillow(good);
  for (const auto& file : files) {
    INFO(file.path);
    const auto start = std::chrono::steady_clock::now();
    const std::string result = decoded(file.path);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    if (file.status != "ok") {
      CHECK_THAT(result.substr(0, 200), Catch::StartsWith("error: "));
      CHECK(result.size() > 20);
      continue;
    }
    CHECK_THAT(result.substr(0, 200), !Catch::StartsWith("error: "));
    // Pillow clips 16-bit gray to 8 bits, where only the upper half makes sense.
    if (!expected.empty() && file.mode != "I;16") CHECK((result == expected.at(file.path)));
  }
}

TEST_CASE("samples of 12 bits are refused with that reason", "[data]") {
  Image image;
  image.resize(16, 16, 3);
  auto bytes = encode_jpeg(image.view(), 90);
  for (size_t i = 0; i + 4 < bytes.size(); ++i) {
    if (bytes[i] != 0xFF || bytes[i + 1] != 0xC0) continue;
    bytes[i + 1] = 0xC1;
    bytes[i + 4] = 12;
    break;
  }
  CHECK_THROWS_WITH(decode_image(bytes, image), Catch::Contains("12"));
}

TEST_CASE("a JPEG with scans without end is refused", "[data]") {
  JpegKind kind;
  kind.progressive = true;
  Image image;
  image.resize(40, 60, 3);  // of one colour: a scan leaves nothing for its repetition to change
  const auto bytes = make_jpeg(image, kind);
  const std::string text(bytes.begin(), bytes.end());
  const std::string end = text.substr(text.size() - 2);
  const size_t tables = text.rfind("\xFF\xC4", text.rfind("\xFF\xDA"));
  const std::string scan = text.substr(tables, text.size() - 2 - tables);
  const auto repeated = [&](int times) {
    std::string file = text.substr(0, text.size() - 2);
    for (int i = 0; i < times; ++i) file += scan;
    return file + end;
  };
  CHECK_NOTHROW(decode_image(bytes_of(repeated(20)), image));
  CHECK_THROWS_WITH(decode_image(bytes_of(repeated(500)), image), Catch::Contains("scans"));
}

}  // namespace composer::odd_files_test
