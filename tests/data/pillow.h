// Decoded images in a form that compares: ours, and what Pillow makes of the same files.
#pragma once

#include <map>

#include "base/error.h"
#include "data/formats/decode.h"
#include "data/samples/source.h"
#include "tests/files.h"

namespace composer::test {

inline std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// The pixels with "height width\n" before.
inline std::string flat(const Image& image) {
  const auto size = static_cast<ptrdiff_t>(image.height * image.width * image.channels);
  return std::to_string(image.height) + " " + std::to_string(image.width) + "\n" +
         std::string(image.pixels.begin(), image.pixels.begin() + size);
}

/// The flat image, or "error: reason".
inline std::string decoded(const std::string& path) {
  try {
    std::vector<uint8_t> bytes;
    read_file(path.c_str(), bytes);
    Image image;
    decode_image(bytes, image);
    return flat(image);
  } catch (const RunError& error) {
    return std::string("error: ") + error.what();
  }
}

/// What Pillow makes of the files, upright and as RGB, in the form of decoded(); empty without
/// Python.
inline std::map<std::string, std::string> pillow(const std::vector<std::string>& files) {
  if (!has_python()) return {};
  const TemporaryFolder folder;
  std::string list;
  for (const auto& file : files) list += file + "\n";
  write_file(folder / "list", list);
  const bool done = run_python(R"(
from PIL import Image, ImageOps
for i, path in enumerate(open("list").read().splitlines()):
    with open(str(i), "wb") as out:
        try:
            image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
            out.write(b"%d %d\n" % (image.height, image.width) + image.tobytes())
        except Exception as e:
            out.write(b"error: " + str(e).encode())
)",
                               folder);
  std::map<std::string, std::string> result;
  for (size_t i = 0; done && i < files.size(); ++i) {
    result[files[i]] = read_bytes(folder / std::to_string(i));
  }
  return result;
}

}  // namespace composer::test
