#include "data/pixels/augment.h"

#include <cstring>

#include "base/simd.h"
#include "data/pixels/copy.h"
#include "data/pixels/map_bytes_simd.h"

// Compiled without fused multiply-add (data/CMakeLists.txt): equal to FFCV to the last bit.
namespace composer {
namespace {

using Table = std::array<uint8_t, 256>;

int64_t bytes_of(const MutableImage& image) { return image.height * image.width * image.channels; }

uint8_t cut(double value) { return static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)); }

/// Blends with one value.
void blend(const MutableImage& image, double factor, double other) {
  Table table;
  for (size_t v = 0; v < table.size(); ++v)
    table[v] = cut(factor * static_cast<double>(v) + (1 - factor) * other);
  map_bytes(table, image.pixels, bytes_of(image));
}

COMPOSER_CLONES
void to_luma(const uint8_t* rgb, int64_t pixels, uint8_t* luma) {
  for (int64_t i = 0; i < pixels; ++i) {
    const double value = 0.2989 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
    luma[i] = static_cast<uint8_t>(static_cast<int32_t>(value));
  }
}

COMPOSER_CLONES
void blend_with(const uint8_t* other, double factor, int64_t n, uint8_t* values) {
  for (int64_t i = 0; i < n; ++i) {
    const double value = factor * values[i] + (1 - factor) * other[i];
    const double positive = value > 0 ? value : 0.0;
    values[i] = static_cast<uint8_t>(static_cast<int32_t>(positive < 255 ? positive : 255.0));
  }
}

COMPOSER_CLONES
void to_gray_pixels(uint8_t* rgb, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i) {
    const int32_t luma = rgb[3 * i] * 19595 + rgb[3 * i + 1] * 38470 + rgb[3 * i + 2] * 7471;
    const auto gray = static_cast<uint8_t>((luma + 0x8000) >> 16);
    rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = gray;
  }
}

constexpr int64_t kBlock = 256;  // pixels whose luma is computed at a time

ImageSize size_of(const MutableImage& image) { return {image.height, image.width}; }

/// Calls change(image, random) with probability `p`.
template <class Change>
SampleTransform sometimes(const char* purpose, double p, Change change) {
  return [=](const MutableImage& image, const SampleKey& key) {
    Random random(key.seed, purpose, key.epoch, key.sample);
    if (random.uniform() < p) change(image, random);
  };
}

/// Calls adjust(image, factor) with probability `p`.
SampleTransform adjusted(const char* purpose, double p, double magnitude,
                         void (*adjust)(const MutableImage&, double)) {
  return sometimes(purpose, p, [=](const MutableImage& image, Random& random) {
    adjust(image, draw_factor(magnitude, random));
  });
}

}  // namespace

void fill_box(const MutableImage& image, const Box& box, const Rgb& fill) {
  if (box.height <= 0 || box.width <= 0) return;
  const int64_t stride = image.width * image.channels, bytes = box.width * image.channels;
  uint8_t* first = image.pixels + box.top * stride + box.left * image.channels;
  for (int64_t i = 0; i < bytes; ++i) first[i] = fill[static_cast<size_t>(i % image.channels)];
  for (int64_t y = 1; y < box.height; ++y)
    std::memcpy(first + y * stride, first, static_cast<size_t>(bytes));
}

void adjust_brightness(const MutableImage& image, double factor) { blend(image, factor, 0); }

void adjust_contrast(const MutableImage& image, double factor) {
  const int64_t pixels = image.height * image.width;
  int64_t sum = 0;
  std::array<uint8_t, kBlock> luma;
  for (int64_t i = 0; i < pixels; i += kBlock) {
    const int64_t n = std::min(kBlock, pixels - i);
    const uint8_t* values = image.pixels + i;
    if (image.channels == 3) {
      to_luma(image.pixels + 3 * i, n, luma.data());
      values = luma.data();
    }
    for (int64_t j = 0; j < n; ++j) sum += values[j];
  }
  blend(image, factor, static_cast<double>(sum) / static_cast<double>(pixels));
}

void adjust_saturation(const MutableImage& image, double factor) {
  if (image.channels == 1) return;
  const int64_t pixels = image.height * image.width;
  std::array<uint8_t, kBlock> luma;
  std::array<uint8_t, 3 * kBlock> gray;
  for (int64_t i = 0; i < pixels; i += kBlock) {
    const int64_t n = std::min(kBlock, pixels - i);
    to_luma(image.pixels + 3 * i, n, luma.data());
    for (size_t j = 0; j < static_cast<size_t>(n); ++j)
      gray[3 * j] = gray[3 * j + 1] = gray[3 * j + 2] = luma[j];
    blend_with(gray.data(), factor, 3 * n, image.pixels + 3 * i);
  }
}

void make_gray(const MutableImage& image) {
  if (image.channels == 3) to_gray_pixels(image.pixels, image.height * image.width);
}

void solarize(const MutableImage& image, int threshold) {
  Table table;
  for (int v = 0; v < 256; ++v)
    table[static_cast<size_t>(v)] = static_cast<uint8_t>(v >= threshold ? 255 - v : v);
  map_bytes(table, image.pixels, bytes_of(image));
}

Box draw_cutout(ImageSize image, int64_t side, Random& random) {
  const int64_t length = std::min(side, std::min(image.height, image.width));
  const int64_t top = random.below(image.height - length + 1);
  return {top, random.below(image.width - length + 1), length, length};
}

double draw_factor(double magnitude, Random& random) {
  return random.uniform(std::max(0.0, 1 - magnitude), 1 + magnitude);
}

std::optional<Box> draw_erasing(ImageSize image, const ErasingLaw& law, Random& random) {
  const auto area = static_cast<double>(image.height * image.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double erased = area * random.uniform(law.least_area, law.most_area);
    const double ratio =
        std::exp(random.uniform(std::log(law.least_ratio), std::log(law.most_ratio)));
    // Python's round(): halves go to the even neighbour.
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(erased * ratio)));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(erased / ratio)));
    if (height >= image.height || width >= image.width) continue;
    const int64_t top = random.below(image.height - height + 1);
    return Box{top, random.below(image.width - width + 1), height, width};
  }
  return std::nullopt;
}

SampleTransform random_cutout(int64_t side, const Rgb& fill, double p, int64_t width) {
  return sometimes("data.cutout", p, [=](const MutableImage& image, Random& random) {
    const int64_t here = width > 0 ? (side * image.width + width / 2) / width : side;
    fill_box(image, draw_cutout(size_of(image), std::max<int64_t>(here, 1), random), fill);
  });
}

SampleTransform random_flip(double p) {
  return sometimes("data.flip", p, [](const MutableImage& image, Random&) {
    const std::vector<uint8_t> copy(image.pixels, image.pixels + bytes_of(image));
    copy_pixels(
        {copy.data(), image.height, image.width, image.channels, image.width * image.channels},
        true, image.pixels);
  });
}

SampleTransform random_translate(int64_t padding, const Rgb& fill) {
  return sometimes("data.translate", 1, [=](const MutableImage& image, Random& random) {
    const std::vector<uint8_t> copy(image.pixels, image.pixels + bytes_of(image));
    const int64_t top = random.below(2 * padding + 1) - padding;
    const int64_t left = random.below(2 * padding + 1) - padding;
    copy_window(
        {copy.data(), image.height, image.width, image.channels, image.width * image.channels},
        {top, left, image.height, image.width}, {.fill = fill}, false, image.pixels);
  });
}

SampleTransform random_brightness(double magnitude, double p) {
  return adjusted("data.brightness", p, magnitude, adjust_brightness);
}

SampleTransform random_contrast(double magnitude, double p) {
  return adjusted("data.contrast", p, magnitude, adjust_contrast);
}

SampleTransform random_saturation(double magnitude, double p) {
  return adjusted("data.saturation", p, magnitude, adjust_saturation);
}

SampleTransform random_erasing(const Rgb& fill, double p, const ErasingLaw& law) {
  return sometimes("data.erasing", p, [=](const MutableImage& image, Random& random) {
    if (const auto box = draw_erasing(size_of(image), law, random)) fill_box(image, *box, fill);
  });
}

SampleTransform random_grayscale(double p) {
  return sometimes("data.grayscale", p,
                   [](const MutableImage& image, Random&) { make_gray(image); });
}

SampleTransform random_solarize(int threshold, double p) {
  return sometimes("data.solarize", p,
                   [=](const MutableImage& image, Random&) { solarize(image, threshold); });
}

}  // namespace composer
