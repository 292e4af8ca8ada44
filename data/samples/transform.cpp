#include "data/samples/transform.h"

#include "base/error.h"

namespace composer {
namespace {

/// Python's round(): halves go to the even neighbour.
int64_t round_half_even(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

Box whole_of(ImageSize size) { return {0, 0, size.height, size.width}; }

/// The largest divisor (1, 2, 4, 8) at which the crop is no smaller than the result.
int decode_scale(const Box& crop, ImageSize size) {
  int scale = 1;
  while (scale < 8 && crop.height >= 2 * scale * size.height &&
         crop.width >= 2 * scale * size.width) {
    scale *= 2;
  }
  return scale;
}

}  // namespace

Pipeline::Pipeline(const Transform& transform, int64_t channels)
    : transform_(transform), channels_(channels) {}

bool Pipeline::run(const StoredImage& image, ImageSize size, const SampleKey& key, uint8_t* out) {
  const Transform& t = transform_;
  const bool resized_first = t.resize_size > 0 && t.kind != Transform::Kind::center_crop;
  const StoredImage current = resized_first ? first_resized(image) : image;
  switch (t.kind) {
    case Transform::Kind::whole:
      whole(current, size, out);
      return false;
    case Transform::Kind::pad_and_crop:
      return pad_and_crop(current, size, key, out);
    case Transform::Kind::random_resized_crop:
      return random_resized_crop(current, size, key, out);
    case Transform::Kind::center_crop:
      center_crop(current, size, out);
      return false;
  }
  return false;
}

/// Resizes the box to the size, and writes the window of the result.
void Pipeline::resize(const StoredImage& image, const Box& box, ImageSize size, const Box& window,
                      bool flip, uint8_t* out) {
  JpegRequest request{.region = {}, .scale = 1, .dct = transform_.dct};
  if (box.height == size.height && box.width == size.width) {
    request.region = {box.top + window.top, box.left + window.left, window.height, window.width};
    return copy_pixels(read_part(image, request, channels_, scratch_).pixels, flip, out);
  }
  const bool triangle = transform_.filter == ResizeFilter::triangle;
  if (transform_.scaled_decode && triangle && image.jpeg && image.orientation == 1) {
    request.scale = decode_scale(box, size);
  }
  if (request.scale == 1) {
    // The crop is resized as an image of its own: pixels outside the box have no weight.
    const ImageSize crop{box.height, box.width};
    const Area all{0, 0, static_cast<double>(box.height), static_cast<double>(box.width)};
    plan_.make(transform_.filter, crop, all, size, window);
    const Box& needed = plan_.needed();
    request.region = {box.top + needed.top, box.left + needed.left, needed.height, needed.width};
    return plan_.run(read_part(image, request, channels_, scratch_).pixels, flip, out);
  }
  request.region = box;
  const ImagePart part = read_part(image, request, channels_, scratch_);
  const double scale = request.scale;
  const Area area{static_cast<double>(box.top) / scale - static_cast<double>(part.box.top),
                  static_cast<double>(box.left) / scale - static_cast<double>(part.box.left),
                  static_cast<double>(box.height) / scale, static_cast<double>(box.width) / scale};
  plan_.make(ResizeFilter::triangle, {part.box.height, part.box.width}, area, size, window);
  const Box& needed = plan_.needed();
  plan_.run(part.pixels.crop(needed.top, needed.left, needed.height, needed.width), flip, out);
}

void Pipeline::whole(const StoredImage& image, ImageSize size, uint8_t* out) {
  resize(image, whole_of(image.size), size, false, out);
}

StoredImage Pipeline::first_resized(const StoredImage& image) {
  const ImageSize first = resized(image.size, transform_.resize_size);
  if (first.height * first.width > kMaxPixels) {
    throw RunError("its shape makes it too large when the shorter side is resized to " +
                   std::to_string(transform_.resize_size));
  }
  const auto bytes = static_cast<size_t>(first.height * first.width * channels_);
  fit(resized_, bytes);
  resize(image, whole_of(image.size), first, false, resized_.data());
  return {.bytes = {resized_.data(), bytes}, .size = first, .channels = channels_};
}

bool Pipeline::draw_flip(const SampleKey& key) const {
  return transform_.flip > 0 &&
         Random(key.seed, "data.flip", key.epoch, key.sample).uniform() < transform_.flip;
}

bool Pipeline::pad_and_crop(const StoredImage& image, ImageSize size, const SampleKey& key,
                            uint8_t* out) {
  const Transform& t = transform_;
  Random random(key.seed, "data.crop", key.epoch, key.sample);
  const auto offset = [&](int64_t length, int64_t crop) {
    return random.below(std::max<int64_t>(length + 2 * t.padding - crop, 0) + 1) - t.padding;
  };
  const int64_t top = offset(image.size.height, t.size.height);
  const int64_t left = offset(image.size.width, t.size.width);
  const Box window{top, left, t.size.height, t.size.width};
  const ImageView all = read_part(image, {.region = whole_of(image.size), .scale = 1, .dct = t.dct},
                                  channels_, scratch_)
                            .pixels;
  const bool flip = draw_flip(key);
  if (size == t.size) {
    copy_window(all, window, t.border, flip, out);
    return flip;
  }
  cropped_.resize(static_cast<size_t>(window.height * window.width * channels_));
  copy_window(all, window, t.border, false, cropped_.data());
  const StoredImage crop{.bytes = cropped_, .size = t.size, .channels = channels_};
  resize(crop, whole_of(t.size), size, flip, out);
  return flip;
}

bool Pipeline::random_resized_crop(const StoredImage& image, ImageSize size, const SampleKey& key,
                                   uint8_t* out) {
  Random random(key.seed, "data.crop", key.epoch, key.sample);
  const bool flip = draw_flip(key);
  resize(image, draw_crop(image.size, random, transform_.crop), size, flip, out);
  return flip;
}

void Pipeline::center_crop(const StoredImage& image, ImageSize size, uint8_t* out) {
  const Transform& t = transform_;
  if (t.center_share > 0)
    return resize(image, ffcv_center_crop(image.size, t.center_share), size, false, out);
  const ImageSize whole = t.resize_size > 0 ? resized(image.size, t.resize_size) : image.size;
  // Where the crop is larger than the image, torchvision pads the smaller half of the difference at
  // the top and left.
  const auto start = [](int64_t length, int64_t crop) {
    return crop > length ? -((crop - length) / 2)
                         : round_half_even(static_cast<double>(length - crop) / 2.0);
  };
  const Box window{start(whole.height, t.size.height), start(whole.width, t.size.width),
                   t.size.height, t.size.width};
  const Box all = whole_of(image.size);
  if (whole.height >= window.height && whole.width >= window.width) {
    return resize(image, all, whole, window, false, out);
  }
  const int64_t top = std::max<int64_t>(window.top, 0), left = std::max<int64_t>(window.left, 0);
  const ImageSize seen{std::min(window.top + window.height, whole.height) - top,
                       std::min(window.left + window.width, whole.width) - left};
  resized_.resize(static_cast<size_t>(seen.height * seen.width * channels_));
  resize(image, all, whole, {top, left, seen.height, seen.width}, false, resized_.data());
  copy_window({resized_.data(), seen.height, seen.width, channels_, seen.width * channels_},
              {window.top - top, window.left - left, window.height, window.width}, {}, false, out);
}

Box ffcv_center_crop(ImageSize image, double ratio) {
  const int64_t shorter = std::min(image.height, image.width);
  const auto wanted = static_cast<int64_t>(ratio * static_cast<double>(shorter));
  const int64_t side = std::clamp<int64_t>(wanted, 1, shorter);
  return {(image.height - side) / 2, (image.width - side) / 2, side, side};
}

ImageSize resized(ImageSize image, int64_t length) {
  if (image.width <= image.height) return {length * image.height / image.width, length};
  return {length, length * image.width / image.height};
}

Box draw_crop(ImageSize image, Random& random, const CropLaw& law) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * random.uniform(law.least_area, law.most_area);
    const double ratio =
        std::exp(random.uniform(std::log(law.least_ratio), std::log(law.most_ratio)));
    const int64_t w = round_half_even(std::sqrt(area * ratio));
    const int64_t h = round_half_even(std::sqrt(area / ratio));
    if (w <= 0 || h <= 0 || w > image.width || h > image.height) continue;
    const int64_t top = random.below(image.height - h + 1);
    return {top, random.below(image.width - w + 1), h, w};
  }
  int64_t w = image.width, h = image.height;
  if (width / height < law.least_ratio) {
    h = std::clamp<int64_t>(round_half_even(width / law.least_ratio), 1, image.height);
  } else if (width / height > law.most_ratio) {
    w = std::clamp<int64_t>(round_half_even(height * law.most_ratio), 1, image.width);
  }
  return {(image.height - h) / 2, (image.width - w) / 2, h, w};
}

}  // namespace composer
