#include <catch2/catch.hpp>
#include <chrono>

#include "data/jpeg/jpeg.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/pillow.h"

using namespace composer;
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

TEST_CASE("rare kinds of JPEG decode as Pillow decodes them", "[data]") {
  if (!has_python()) {
    WARN("skipped: no Python environment");
    return;
  }
  const TemporaryFolder folder;
  REQUIRE(run_python(R"(
from PIL import Image
gray = Image.linear_gradient("L").resize((77, 51)).rotate(30)
rgb = Image.merge("RGB", (gray, gray.transpose(0), gray.rotate(60)))
for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
    rgb.save(f"baseline_{name}.jpg", subsampling=subsampling)
    rgb.save(f"progressive_{name}.jpg", subsampling=subsampling, progressive=True)
    rgb.save(f"restarts_{name}.jpg", subsampling=subsampling, restart_marker_blocks=3)
gray.save("gray.jpg")
gray.save("gray_progressive.jpg", progressive=True)
cmyk = Image.merge("CMYK", (gray, gray.transpose(0), gray.rotate(60), gray.rotate(90)))
cmyk.save("cmyk.jpg")
rgb.save("kept_rgb.jpg", keep_rgb=True)
rgb.save("first.mpo", format="MPO", save_all=True, append_images=[gray.convert("RGB")])
# Adobe's inverted YCCK: the transform flag of APP14 says how the first three components are coded.
data = bytearray(open("cmyk.jpg", "rb").read())
at = data.index(b"Adobe")
data[at + 11] = 2
open("ycck.jpg", "wb").write(data)
)",
                     folder));
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".py") files.push_back(entry.path().string());
  }
  CHECK(files.size() == 15);
  for (const auto& [file, expected] : pillow(files)) {
    INFO(file);
    CHECK_THAT(expected.substr(0, 20), Catch::StartsWith("51 77"));
    CHECK((decoded(file) == expected));
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
