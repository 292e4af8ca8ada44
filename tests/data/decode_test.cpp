#include "data/decode.h"

#include <catch2/catch.hpp>
#include <map>

#include "composer/error.h"
#include "data/jpeg.h"
#include "data/source.h"
#include "tests/data/helpers.h"

using namespace composer;
using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Image gradient(int64_t height, int64_t width) {
  Image image;
  image.resize(height, width, 3);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* pixel = image.row(y) + 3 * x;
      pixel[0] = static_cast<uint8_t>(4 * y), pixel[1] = static_cast<uint8_t>(4 * x),
      pixel[2] = 128;
    }
  }
  return image;
}

std::string jpeg_file() {
  const auto bytes = encode_jpeg(gradient(40, 50).view(), 95);
  return {bytes.begin(), bytes.end()};
}

/// The decoded pixels with "height width\n" before, or "error: reason".
std::string decoded(const std::string& path) {
  try {
    std::vector<uint8_t> bytes;
    read_file(path.c_str(), bytes);
    Image image;
    decode_image(bytes, image);
    const auto size = static_cast<size_t>(image.height * image.width * 3);
    return std::to_string(image.height) + " " + std::to_string(image.width) + "\n" +
           std::string(image.pixels.begin(), image.pixels.begin() + static_cast<ptrdiff_t>(size));
  } catch (const RunError& error) {
    return std::string("error: ") + error.what();
  }
}

/// What Pillow makes of the files, in the form of decoded(); empty without Python.
std::map<std::string, std::string> pillow(const std::vector<std::string>& files) {
  if (!fs::exists(python())) return {};
  const TempFolder folder;
  std::string list;
  for (const auto& file : files) list += file + "\n";
  write_file(folder / "list", list);
  REQUIRE(run_python(R"(
from PIL import Image
for i, path in enumerate(open("list").read().splitlines()):
    with open(str(i), "wb") as out:
        try:
            image = Image.open(path).convert("RGB")
            out.write(b"%d %d\n" % (image.height, image.width) + image.tobytes())
        except Exception as e:
            out.write(b"error: " + str(e).encode())
)",
                     folder));
  std::map<std::string, std::string> result;
  for (size_t i = 0; i < files.size(); ++i)
    result[files[i]] = read_bytes(folder / std::to_string(i));
  return result;
}

}  // namespace

TEST_CASE("a JPEG round trip keeps a smooth image nearly as it was", "[data]") {
  const Image before = gradient(40, 50);
  const std::string file = jpeg_file();
  Image after;
  decode_image(bytes_of(file), after);
  REQUIRE(after.height == 40);
  REQUIRE(after.width == 50);
  int worst = 0;
  for (size_t i = 0; i < 40 * 50 * 3; ++i) {
    worst = std::max(worst, std::abs(int{before.pixels[i]} - int{after.pixels[i]}));
  }
  CHECK(worst < 12);
}

TEST_CASE("a JPEG cut anywhere is refused with a reason, but for its end marker", "[data]") {
  const std::string file = jpeg_file();
  Image image;
  for (size_t length = 3; length < file.size() - 20; length += 7) {
    CHECK_THROWS_WITH(decode_image(bytes_of(file.substr(0, length)), image),
                      Contains("JPEG") && Contains("("));
  }
  CHECK_NOTHROW(decode_image(bytes_of(file.substr(0, file.size() - 2)), image));
}

TEST_CASE("a JPEG damaged anywhere decodes or is refused, and never crashes", "[data]") {
  const std::string file = jpeg_file();
  Image image;
  int refused = 0;
  for (size_t at = 2; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ (at % 2 == 0 ? 0xFF : 0x10));
    try {
      decode_image(bytes_of(damaged), image);
    } catch (const RunError&) {
      ++refused;
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("other formats are named", "[data]") {
  Image image;
  const auto refuse = [&](const std::string& bytes) { decode_image(bytes_of(bytes), image); };
  CHECK_THROWS_WITH(refuse(""), Contains("empty"));
  CHECK_THROWS_WITH(refuse("GIF89a......"), Contains("GIF") && Contains("JPEG and PNG"));
  CHECK_THROWS_WITH(refuse("RIFF1234WEBPVP8 "), Contains("WebP"));
  CHECK_THROWS_WITH(refuse("hello"), Contains("neither a JPEG nor a PNG"));
  CHECK_THROWS_WITH(refuse("\x89PNG\r\n\x1A\n"), Contains("broken PNG"));
}

TEST_CASE("photographs decode to Pillow's pixels", "[data]") {
  const fs::path photos = shared_data() / "photos" / "imagenet_sample";
  if (!fs::exists(photos) || !fs::exists(python())) {
    WARN("skipped: no ../shared/data/photos or no Python environment");
    return;
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(photos)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 1; i < files.size(); ++i) {
    if (i % 20 != 0) files[i].clear();
  }
  std::erase(files, "");
  for (const auto& [file, expected] : pillow(files)) {
    INFO(file);
    CHECK((decoded(file) == expected));
  }
}

TEST_CASE("odd files decode as Pillow decodes them, or are refused with a reason", "[data]") {
  const fs::path odd = shared_data() / "odd";
  if (!fs::exists(odd)) {
    WARN("skipped: no ../shared/data/odd");
    return;
  }
  std::ifstream index(odd / "INDEX.tsv");
  std::string line;
  std::getline(index, line);
  std::map<std::string, std::vector<std::string>> rows;
  std::vector<std::string> good;
  while (std::getline(index, line)) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
    const std::string path = (odd / fields.at(0)).string();
    rows[path] = fields;
    if (fields.at(2) == "ok") good.push_back(path);
  }
  CHECK(rows.size() > 60);
  auto expected = pillow(good);
  for (const auto& [path, fields] : rows) {
    INFO(path);
    const std::string result = decoded(path);
    const bool readable = fields.at(2) == "ok" && (fields.at(3) == "JPEG" || fields.at(3) == "PNG");
    if (!readable) {
      CHECK_THAT(result.substr(0, 100), Catch::StartsWith("error: "));
      CHECK(result.size() > 12);
      continue;
    }
    CHECK_THAT(result.substr(0, 100), !Catch::StartsWith("error: "));
    // Pillow clips 16-bit gray to 8 bits, where only the upper half makes sense.
    if (!expected.empty() && fields.at(4) != "I;16") CHECK((result == expected.at(path)));
  }
}
