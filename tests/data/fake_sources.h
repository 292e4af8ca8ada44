// For the tests of writing .beton files: sets in memory, and what a file holds.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "data/beton/beton.h"
#include "data/beton/write.h"
#include "data/formats/decode.h"
#include "data/jpeg/header.h"
#include "data/jpeg/jpeg.h"
#include "tests/data/make_jpeg.h"

namespace composer::test {

using Bytes = std::vector<uint8_t>;

/// Files in memory.
class FakeFiles : public Source {
 public:
  std::vector<Bytes> files;
  std::vector<int64_t> labels;

  void add(Bytes file) {
    labels.push_back(static_cast<int64_t>(files.size() * 7 % 10));
    files.push_back(std::move(file));
  }
  int64_t size() const override { return static_cast<int64_t>(files.size()); }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t i) const override { return labels[static_cast<size_t>(i)]; }
  std::string name(int64_t i) const override { return "file" + std::to_string(i); }
  StoredImage open(int64_t i, ReadScratch& scratch) const override {
    const Bytes& file = files[static_cast<size_t>(i)];
    if (file.size() == 3) throw std::logic_error("a fault");
    if (file.size() > 2 && file[0] == 0xFF && file[1] == 0xD8) {
      const JpegHeader header = read_jpeg_header(file);
      return {.jpeg = true,
              .bytes = file,
              .size = header.upright_size(),
              .orientation = header.orientation};
    }
    decode_image(file, scratch.image);
    return {};
  }
};

/// Pixels in memory.
class FakePixels : public Source {
 public:
  explicit FakePixels(std::vector<Image> images) : images_(std::move(images)) {}
  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  int64_t channels() const override { return images_[0].channels; }
  int64_t label(int64_t i) const override { return -i; }
  std::string name(int64_t i) const override { return "image" + std::to_string(i); }
  StoredImage open(int64_t i, ReadScratch&) const override {
    const Image& image = images_[static_cast<size_t>(i)];
    return {.bytes = {image.pixels.data(),
                      static_cast<size_t>(image.height * image.width * image.channels)},
            .size = {image.height, image.width},
            .channels = image.channels};
  }

 private:
  std::vector<Image> images_;
};

inline std::vector<Image> pictures(int count) {
  std::vector<Image> images;
  for (int i = 0; i < count; ++i) images.push_back(make_picture(30 + i % 17, 40 + i % 5));
  return images;
}

inline Bytes pixels_of(const Image& image) {
  return {
      image.pixels.begin(),
      image.pixels.begin() + static_cast<ptrdiff_t>(image.height * image.width * image.channels)};
}

inline Bytes decoded(std::span<const uint8_t> bytes) {
  Image image;
  decode_jpeg(bytes, image);
  return pixels_of(image);
}

struct Row {
  bool jpeg;
  ImageSize size;
  Bytes bytes;
  int64_t label;
  bool operator==(const Row&) const = default;
};

inline std::vector<Row> rows_of(const std::string& path) {
  const BetonFile file(path);
  CHECK(file.fields().at(0).name == "image");
  CHECK(file.fields().at(1).name == "label");
  std::vector<Row> rows;
  for (int64_t i = 0; i < file.samples(); ++i) {
    const auto image = file.image(i, 0);
    rows.push_back(
        {image.jpeg, image.size, {image.bytes.begin(), image.bytes.end()}, file.integer(i, 1)});
  }
  return rows;
}

inline WriteOptions options_of(WriteMode mode) {
  WriteOptions options;
  options.pack.mode = mode;
  options.num_workers = 2;
  return options;
}

/// Some streams of each kind that is taken over, and some that are not.
inline FakeFiles mixed_files() {
  FakeFiles files;
  const Image picture = make_picture(64, 48), odd = make_picture(50, 41);
  files.add(make_jpeg(picture));
  files.add(make_jpeg(picture, {.h_samp = 1, .v_samp = 1, .restart_interval = 4}));
  files.add(make_jpeg(picture, {.progressive = true}));
  files.add(make_jpeg(make_picture(20, 30, 1), {.coded = JCS_GRAYSCALE}));
  files.add(make_jpeg(picture, {.orientation = 6}));
  files.add(make_jpeg(odd, {.orientation = 6}));
  files.add(make_jpeg(make_picture(33, 22, 4), {.h_samp = 1, .v_samp = 1, .coded = JCS_YCCK}));
  files.add(make_jpeg(picture, {.arithmetic = true}));
  files.add(make_jpeg(picture, {.interleaved = false}));
  files.add(make_jpeg(odd, {.h_samp = 1, .v_samp = 1, .coded = JCS_RGB}));
  return files;
}

}  // namespace composer::test
