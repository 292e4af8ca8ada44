// Photographs for tests that train from files.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "data/datasets/shapes.h"
#include "data/jpeg/jpeg.h"

namespace composer::test {

/// `count` drawn photographs in four class folders: file i is i%4/i.jpg, of side(i) pixels each
/// way.
inline void draw_photos(const std::filesystem::path& folder, int count,
                        const std::function<int(int)>& side) {
  for (int i = 0; i < count; ++i) {
    const auto bytes = encode_jpeg(draw_shape(true, i, side(i)).view(), 90);
    const auto file = folder / std::to_string(i % 4) / (std::to_string(i) + ".jpg");
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace composer::test
