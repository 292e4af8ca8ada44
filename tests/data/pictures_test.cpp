// Images of every format that Python made, against Pillow: as it was recorded, and as it is.
#include <zlib.h>

#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "tests/data/pillow.h"
#include "tests/vectors.h"

namespace composer::pictures_test {

using namespace composer::test;

namespace {

/// The scripts of tests/data/pictures, and how many files each leaves at least.
const std::map<std::string, size_t> all_scripts{{"bmp", 57},  {"gif_webp_pnm", 30},
                                                {"jpeg", 15}, {"orientations", 8},
                                                {"png", 52},  {"tiff", 100}};

struct Picture {
  std::string file;      ///< its bytes
  std::string expected;  ///< fingerprint of the pixels in the form of decoded()
};
using Pictures = std::map<std::string, Picture>;

std::string read_script(const std::string& name) {
  return read_bytes(from_environment("COMPOSER_TEST_SOURCE", SOURCE_DIR) + "/tests/data/pictures/" +
                    name + ".py");
}

/// What the script leaves, and what Pillow makes of it. Where there is a file NAME.rgb, that is
/// what NAME must decode to.
Pictures pictures_of(const std::string& name) {
  const TemporaryFolder folder;
  REQUIRE(run_python(read_script(name), folder));
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    const auto ending = entry.path().extension();
    if (ending != ".py" && ending != ".rgb") files.push_back(entry.path().string());
  }
  Pictures pictures;
  for (const auto& [file, by_pillow] : pillow(files)) {
    INFO(file);
    const std::string expected = fs::exists(file + ".rgb") ? read_bytes(file + ".rgb") : by_pillow;
    CHECK_THAT(expected.substr(0, 100), !Catch::StartsWith("error: "));
    pictures[fs::path(file).filename()] = {read_bytes(file), fingerprint(expected)};
  }
  return pictures;
}

void check(const Pictures& pictures, size_t at_least) {
  CHECK(pictures.size() >= at_least);
  const TemporaryFolder folder;
  for (const auto& [name, picture] : pictures) {
    INFO(name);
    const auto ours = decoded(folder.write(name, picture.file));
    CHECK_THAT(ours.substr(0, 100), !Catch::StartsWith("error: "));
    CHECK(fingerprint(ours) == picture.expected);
  }
}

/// Lines "NAME BYTES EXPECTED", each followed by the file's bytes; compressed, after the length.
std::string packed(const Pictures& pictures) {
  std::string plain;
  for (const auto& [name, picture] : pictures)
    plain += name + " " + std::to_string(picture.file.size()) + " " + picture.expected + "\n" +
             picture.file;
  auto size = compressBound(plain.size());
  std::string bytes(size, 0);
  REQUIRE(compress2(reinterpret_cast<Bytef*>(bytes.data()), &size,
                    reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 9) == Z_OK);
  return std::to_string(plain.size()) + "\n" + bytes.substr(0, size);
}

Pictures unpacked(const std::string& text) {
  const auto head = text.find('\n') + 1;
  uLongf size = std::stoul(text);
  std::string plain(size, 0);
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                     reinterpret_cast<const Bytef*>(text.data() + head),
                     text.size() - head) == Z_OK);
  std::istringstream in(plain);
  Pictures pictures;
  std::string name;
  for (size_t bytes = 0; in >> name >> bytes;) {
    auto& picture = pictures[name];
    in >> picture.expected;
    in.get();
    picture.file.resize(bytes);
    in.read(picture.file.data(), static_cast<std::streamsize>(bytes));
  }
  return pictures;
}

}  // namespace

TEST_CASE("every kind of PNG, GIF, WebP, PNM, BMP, TIFF and JPEG decodes as Pillow decodes it",
          "[data]") {
  for (const auto& [name, at_least] : all_scripts) {
    INFO(name);
    check(unpacked(recorded("pictures_" + name + ".z")), at_least);
  }
}

TEST_CASE("every kind of image decodes as the Pillow that is installed decodes it",
          "[data][peer][recorded][slow]") {
  if (!has_python()) {
    WARN("skipped: no Python environment");
    return;
  }
  for (const auto& [name, at_least] : all_scripts) {
    INFO(name);
    const auto pictures = pictures_of(name);
    check(pictures, at_least);
    record("pictures_" + name + ".z", packed(pictures));
  }
}

}  // namespace composer::pictures_test
