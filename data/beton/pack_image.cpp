#include "data/beton/pack_image.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "data/jpeg/header.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/transcode.h"

namespace composer {
namespace {

constexpr int64_t kLongestSide = 65535;      // the limit of a row's 16 bits
constexpr int64_t kLongestJpegSide = 65500;  // libjpeg's

bool ends_with_marker(std::span<const uint8_t> stream) {
  return stream.size() >= 2 && stream[stream.size() - 2] == 0xFF && stream.back() == kEoi;
}

/// False for a stream that was cut off.
bool is_in_order(std::span<const uint8_t> stream) {
  return ends_with_marker(stream) && has_one_whole_scan(stream);
}

JpegRequest whole(ImageSize size, int scale = 1) {
  return {.region = {0, 0, size.height, size.width}, .scale = scale};
}

/// The crop index of a stream, made by a walk along all its codes. A stream without an index is
/// decoded in its original form, so that an error names the reason. Either way the stream is known
/// to be whole afterwards.
std::vector<uint8_t> checked_index(std::span<const uint8_t> stream,
                                   std::span<const uint8_t> as_it_came, ReadScratch& scratch) {
  auto index = make_jpeg_index(stream);
  if (index.empty()) decode_jpeg(as_it_came, scratch.image);
  return index;
}

/// Takes over a stream without decoding it to pixels; nothing when that is impossible.
std::optional<PackedImage> take_over(const StoredImage& image, const PackOptions& options,
                                     ReadScratch& scratch) {
  const bool as_it_is = options.mode == WriteMode::keep;
  const JpegHeader header = read_jpeg_header(image.bytes);
  if ((header.components != 1 && header.components != 3) || header.precision != 8) return {};
  if (header.upright_size() != image.size) return {};  // decoding it tells the reason
  PackedImage packed{.size = image.size};
  if (image.orientation != 1 || !(header.baseline || as_it_is)) {
    auto stream = transcode_jpeg(image.bytes, image.orientation);
    if (!stream) return {};
    packed.packing = image.orientation == 1 ? Packing::transcoded : Packing::rotated;
    packed.bytes = std::move(*stream);
    packed.index = checked_index(packed.bytes, packed.bytes, scratch);
    return packed;
  }
  const auto stream = as_it_is ? image.bytes : first_jpeg(image.bytes);
  packed.packing = Packing::passed;
  const bool add_end = !as_it_is && !ends_with_marker(stream);
  packed.bytes.reserve(stream.size() + 2);
  packed.bytes.assign(stream.begin(), stream.end());
  if (add_end) packed.bytes.insert(packed.bytes.end(), {0xFF, kEoi});
  const auto index = image.index.index();
  const bool known = !index.empty() && jpeg_index_fits(packed.bytes, index);
  if (known && packed.bytes.size() == image.bytes.size())
    packed.index.assign(index.begin(), index.end());
  else if (options.index || !is_in_order(stream))
    packed.index = checked_index(packed.bytes, stream, scratch);
  return packed;
}

void gray_to_rgb(const ImageView& gray, Image& rgb) {
  rgb.resize(gray.height, gray.width, 3);
  uint8_t* out = rgb.pixels.data();
  for (int64_t y = 0; y < gray.height; ++y) {
    const uint8_t* row = gray.row(y);
    for (int64_t x = 0; x < gray.width; ++x, out += 3) out[0] = out[1] = out[2] = row[x];
  }
}

}  // namespace

ImageSize packed_size(ImageSize size, std::optional<int64_t> max_resolution) {
  if (!max_resolution) return size;
  const double ratio =
      static_cast<double>(*max_resolution) / static_cast<double>(std::max(size.height, size.width));
  if (ratio >= 1) return size;
  const auto shrink = [ratio](int64_t side) {
    return std::max<int64_t>(1, static_cast<int64_t>(ratio * static_cast<double>(side)));
  };
  return {shrink(size.height), shrink(size.width)};
}

bool ImagePacker::wants_jpeg(const StoredImage& image, ImageSize size, int64_t row) const {
  switch (options_.mode) {
    case WriteMode::keep:
      return image.jpeg;
    case WriteMode::raw:
      return false;
    case WriteMode::jpg:
      return true;
    case WriteMode::proportion:
      return Random(options_.seed, "write.proportion", 0, static_cast<uint64_t>(row)).uniform() <
             options_.compress_probability;
    case WriteMode::smart:
      return options_.smart_threshold && size.height * size.width * 3 > *options_.smart_threshold;
  }
  return true;
}

/// RGB, in the wanted size. A JPEG more than twice as large is decoded at a fraction of its size
/// that is still at least twice the wanted size.
ImageView ImagePacker::decode(const StoredImage& image, ImageSize size, ReadScratch& scratch) {
  int scale = 1;
  while (image.jpeg && image.orientation == 1 && scale < 8 &&
         image.size.height >= 4 * scale * size.height && image.size.width >= 4 * scale * size.width)
    scale *= 2;
  const ImagePart part = read_part(image, whole(image.size, scale), image.channels, scratch);
  ImageView pixels = part.pixels;
  if (part.whole != size) {
    resized_.resize(size.height, size.width, pixels.channels);
    plan_.make(
        ResizeFilter::area, part.whole,
        {0, 0, static_cast<double>(part.whole.height), static_cast<double>(part.whole.width)}, size,
        {0, 0, size.height, size.width});
    plan_.run(pixels, false, resized_.pixels.data());
    pixels = resized_.view();
  }
  if (pixels.channels == 3) return pixels;
  gray_to_rgb(pixels, rgb_);
  return rgb_.view();
}

PackedImage ImagePacker::pack(StoredImage image, int64_t row, ReadScratch& scratch) {
  const ImageSize size = packed_size(image.size, options_.max_resolution);
  const bool jpeg = wants_jpeg(image, size, row);
  const int64_t longest = std::max(size.height, size.width);
  const int64_t limit = jpeg ? kLongestJpegSide : kLongestSide;
  if (longest > limit) {
    throw RunError("a side of " + std::to_string(longest) + " pixels; the file can hold " +
                   std::to_string(limit) + " (--max_resolution makes images smaller)");
  }
  if (jpeg && image.jpeg && options_.passthrough && size == image.size) {
    auto packed = take_over(image, options_, scratch);
    if (packed) return std::move(*packed);
  }
  if (jpeg && image.jpeg && image.channels == 3 && image.orientation == 1 && size == image.size)
    if (auto made = requantizer_.run(image.bytes, options_.jpeg_quality);
        made && made->size == image.size) {
      if (!options_.index) made->index.clear();
      return {.packing = Packing::encoded,
              .size = size,
              .bytes = std::move(made->bytes),
              .index = std::move(made->index)};
    }
  const ImageView pixels = decode(image, size, scratch);
  PackedImage packed{.resized = size != image.size, .size = size};
  if (jpeg) {
    packed.packing = Packing::encoded;
    packed.bytes = encode_jpeg(pixels, options_.jpeg_quality);
    if (options_.index) packed.index = make_jpeg_index(packed.bytes);
  } else {
    const size_t row_bytes = static_cast<size_t>(pixels.width) * 3;
    packed.bytes.reserve(row_bytes * static_cast<size_t>(pixels.height));
    for (int64_t y = 0; y < pixels.height; ++y)
      packed.bytes.insert(packed.bytes.end(), pixels.row(y), pixels.row(y) + row_bytes);
  }
  return packed;
}

}  // namespace composer
