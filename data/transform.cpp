#include "data/transform.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "composer/error.h"

namespace composer {
namespace {

struct Scratch {
  std::vector<uint8_t> resized, cropped;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

ImageView view_of(std::vector<uint8_t>& pixels, ImageSize size, int64_t channels) {
  return {pixels.data(), size.height, size.width, channels, size.width * channels};
}

ImageSize size_of(const ImageView& image) { return {image.height, image.width}; }

bool draw_flip(const Place& place) {
  return Random(place.seed, "data.flip", place.epoch, place.sample).uniform() < 0.5;
}

// Python's round(): halves go to the even neighbour.
int64_t round_half_even(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

/// Copies the part of `image` that `window` covers; what lies outside the image is 0.
void copy_window(const ImageView& image, const Box& window, bool flip, uint8_t* out) {
  const int64_t top = std::max<int64_t>(window.top, 0), left = std::max<int64_t>(window.left, 0);
  const int64_t bottom = std::min(window.top + window.height, image.height);
  const int64_t right = std::min(window.left + window.width, image.width);
  const Box inside{top, left, bottom - top, right - left};
  const int64_t row_bytes = window.width * image.channels;
  if (inside.height != window.height || inside.width != window.width) {
    std::memset(out, 0, static_cast<size_t>(window.height * row_bytes));
  }
  if (bottom <= top || right <= left) return;
  const int64_t before = flip ? window.left + window.width - right : left - window.left;
  out += (top - window.top) * row_bytes + before * image.channels;
  for (int64_t y = 0; y < inside.height; ++y, out += row_bytes) {
    copy_pixels(image.crop(inside.top + y, inside.left, 1, inside.width), flip, out);
  }
}

void pad_and_crop(const Transform& t, const ImageView& image, ImageSize size, const Place& place,
                  uint8_t* out) {
  Random random(place.seed, "data.crop", place.epoch, place.sample);
  const auto offset = [&](int64_t length, int64_t crop) {
    return random.below(std::max<int64_t>(length + 2 * t.padding - crop, 0) + 1) - t.padding;
  };
  const int64_t top = offset(image.height, t.size.height);
  const int64_t left = offset(image.width, t.size.width);
  const Box window{top, left, t.size.height, t.size.width};
  if (size == t.size) return copy_window(image, window, draw_flip(place), out);
  auto& pixels = scratch().cropped;
  pixels.resize(static_cast<size_t>(window.height * window.width * image.channels));
  copy_window(image, window, false, pixels.data());
  resize_bilinear(view_of(pixels, t.size, image.channels), size, draw_flip(place), out);
}

void random_resized_crop(const ImageView& image, ImageSize size, const Place& place, uint8_t* out) {
  Random random(place.seed, "data.crop", place.epoch, place.sample);
  const Box box = draw_crop(size_of(image), random);
  resize_bilinear(image.crop(box.top, box.left, box.height, box.width), size, draw_flip(place),
                  out);
}

void center_crop(const Transform& t, const ImageView& image, uint8_t* out) {
  const ImageSize whole =
      t.resize_size > 0 ? resized(size_of(image), t.resize_size) : size_of(image);
  // Where the crop is larger than the image, torchvision pads the smaller half of the difference
  // first.
  const auto start = [](int64_t length, int64_t crop) {
    return crop > length ? -((crop - length) / 2)
                         : round_half_even(static_cast<double>(length - crop) / 2.0);
  };
  const Box window{start(whole.height, t.size.height), start(whole.width, t.size.width),
                   t.size.height, t.size.width};
  if (whole == size_of(image)) return copy_window(image, window, false, out);
  const Box all{0, 0, image.height, image.width};
  const bool covered = whole.height >= window.height && whole.width >= window.width;
  if (covered) {
    return resize_bilinear(image, all, whole, window, false, out);
  }
  const int64_t top = std::max<int64_t>(window.top, 0), left = std::max<int64_t>(window.left, 0);
  const ImageSize seen{std::min(window.top + window.height, whole.height) - top,
                       std::min(window.left + window.width, whole.width) - left};
  auto& pixels = scratch().resized;
  pixels.resize(static_cast<size_t>(seen.height * seen.width * image.channels));
  resize_bilinear(image, all, whole, {top, left, seen.height, seen.width}, false, pixels.data());
  copy_window(view_of(pixels, seen, image.channels),
              {window.top - top, window.left - left, window.height, window.width}, false, out);
}

}  // namespace

ImageSize resized(ImageSize image, int64_t length) {
  if (image.width <= image.height) return {length * image.height / image.width, length};
  return {length, length * image.width / image.height};
}

Box draw_crop(ImageSize image, Random& random) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  constexpr double kLowest = 3.0 / 4.0, kHighest = 4.0 / 3.0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * random.uniform(0.08, 1.0);
    const double ratio = std::exp(random.uniform(std::log(kLowest), std::log(kHighest)));
    const int64_t w = round_half_even(std::sqrt(area * ratio));
    const int64_t h = round_half_even(std::sqrt(area / ratio));
    if (w <= 0 || h <= 0 || w > image.width || h > image.height) continue;
    const int64_t top = random.below(image.height - h + 1);
    return {top, random.below(image.width - w + 1), h, w};
  }
  int64_t w = image.width, h = image.height;
  if (width / height < kLowest) {
    h = std::clamp<int64_t>(round_half_even(width / kLowest), 1, image.height);
  } else if (width / height > kHighest) {
    w = std::clamp<int64_t>(round_half_even(height * kHighest), 1, image.width);
  }
  return {(image.height - h) / 2, (image.width - w) / 2, h, w};
}

void apply(const Transform& t, const ImageView& image, ImageSize size, const Place& place,
           uint8_t* out) {
  ImageView current = image;
  if (t.resize_size > 0 && t.kind != Transform::Kind::center_crop) {
    const ImageSize first = resized(size_of(image), t.resize_size);
    if (first.height * first.width > kMaxPixels) {
      throw RunError("its shape makes it too large when the shorter side is resized to " +
                     std::to_string(t.resize_size));
    }
    auto& pixels = scratch().resized;
    pixels.resize(static_cast<size_t>(first.height * first.width * image.channels));
    resize_bilinear(image, first, false, pixels.data());
    current = view_of(pixels, first, image.channels);
  }
  switch (t.kind) {
    case Transform::Kind::whole:
      return resize_bilinear(current, size, false, out);
    case Transform::Kind::pad_and_crop:
      return pad_and_crop(t, current, size, place, out);
    case Transform::Kind::random_resized_crop:
      return random_resized_crop(current, size, place, out);
    case Transform::Kind::center_crop:
      return center_crop(t, current, out);
  }
}

}  // namespace composer
