#include "inference/pooling.h"

#include <ATen/Parallel.h>

#include "inference/largest_simd.h"

namespace composer {
namespace {

/// The taps of a window that lie within the image.
struct Taps {
  int64_t begin, end, step;

  Taps(int64_t out, int64_t size, const Pool2dOptions& options, size_t dimension)
      : step(options.dilation[dimension]) {
    begin = out * options.stride[dimension] - options.padding[dimension];
    end = std::min(begin + options.kernel[dimension] * step, size);
    while (begin < 0) begin += step;
  }

  int64_t count() const { return begin < end ? (end - begin + step - 1) / step : 0; }
};

int64_t pooled(int64_t size, const Pool2dOptions& options, size_t dimension) {
  const int64_t window = options.dilation[dimension] * (options.kernel[dimension] - 1) + 1;
  return (size + 2 * options.padding[dimension] - window) / options.stride[dimension] + 1;
}

/// [N, H, W, C].
at::Tensor pixels_of(const at::Tensor& images) { return images.permute({0, 2, 3, 1}).contiguous(); }

template <class T>
at::Tensor largest_of_type(const at::Tensor& image, const Pool2dOptions& options) {
  const int64_t height = image.size(1), width = image.size(2), channels = image.size(3);
  const int64_t rows = pooled(height, options, 0), columns = pooled(width, options, 1);
  auto output = at::empty({image.size(0), rows, columns, channels}, image.options());
  const auto* const in = image.const_data_ptr<T>();
  auto* const all = output.template mutable_data_ptr<T>();
  at::parallel_for(0, image.size(0) * rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto* const from = in + row / rows * height * width * channels;
      const Taps y_taps(row % rows, height, options, 0);
      for (int64_t column = 0; column < columns; ++column) {
        const Taps x_taps(column, width, options, 1);
        const PixelWindow<T> window{
            .first = from + (y_taps.begin * width + x_taps.begin) * channels,
            .rows = y_taps.count(),
            .row_stride = y_taps.step * width * channels,
            .columns = x_taps.count(),
            .column_stride = x_taps.step * channels,
            .channels = channels,
        };
        largest_values(window, all + (row * columns + column) * channels);
      }
    }
  });
  return output.permute({0, 3, 1, 2});
}

/// [N, H, W, C] of T -> [N, C] of Sum.
template <class T, class Sum>
at::Tensor sums_of_pixels(const at::Tensor& images) {
  const int64_t pixels = images.size(1) * images.size(2), channels = images.size(3);
  auto sums = at::zeros({images.size(0), channels}, c10::CppTypeToScalarType<Sum>::value);
  const auto* const in = images.const_data_ptr<T>();
  auto* const all = sums.template mutable_data_ptr<Sum>();
  at::parallel_for(0, images.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin * pixels; pixel < end * pixels; ++pixel) {
      const auto* const from = in + pixel * channels;
      auto* const to = all + pixel / pixels * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
    }
  });
  return sums;
}

}  // namespace

at::Tensor largest_of_windows(const at::Tensor& images, const Pool2dOptions& options) {
  const auto pixels = pixels_of(images);
  return pixels.scalar_type() == at::kByte ? largest_of_type<uint8_t>(pixels, options)
                                           : largest_of_type<float>(pixels, options);
}

at::Tensor mean_of_pixels(const at::Tensor& images, const Affine& codes) {
  const auto pixels = pixels_of(images);
  const auto count = static_cast<double>(pixels.size(1) * pixels.size(2));
  if (pixels.scalar_type() != at::kByte) return sums_of_pixels<float, float>(pixels).div_(count);
  return sums_of_pixels<uint8_t, int32_t>(pixels)
      .to(at::kDouble)
      .div_(count)
      .sub_(static_cast<double>(codes.zero_point))
      .mul_(codes.scale)
      .to(at::kFloat);
}

}  // namespace composer
