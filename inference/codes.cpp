#include "inference/codes.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "composer/normalize.h"
#include "inference/largest_bytes_simd.h"

namespace composer {
namespace {

/// The taps of a window that lie within the image.
struct Taps {
  int64_t begin, end, step;

  int64_t count() const { return begin < end ? (end - begin + step - 1) / step : 0; }

  Taps(int64_t out, int64_t size, const Pool2dOptions& options, size_t dimension)
      : step(options.dilation[dimension]) {
    begin = out * options.stride[dimension] - options.padding[dimension];
    end = std::min(begin + options.kernel[dimension] * step, size);
    while (begin < 0) begin += step;
  }
};

int64_t pooled(int64_t size, const Pool2dOptions& options, size_t dimension) {
  const int64_t window = options.dilation[dimension] * (options.kernel[dimension] - 1) + 1;
  return (size + 2 * options.padding[dimension] - window) / options.stride[dimension] + 1;
}

}  // namespace

at::Tensor codes_of(const at::Tensor& numbers, const Affine& affine, int64_t bits) {
  auto codes =
      at::quantize_per_tensor(numbers, affine.scale, affine.zero_point, at::kQUInt8).int_repr();
  if (bits < 8) codes.clamp_max_((int64_t{1} << bits) - 1);
  return codes;
}

at::Tensor numbers_of(const at::Tensor& codes, const Affine& affine) {
  return at::_make_per_tensor_quantized_tensor(codes, affine.scale, affine.zero_point).dequantize();
}

at::Tensor pixel_codes(const Normalization& normalization, const Affine& affine, int64_t bits) {
  const auto channels = std::ssize(normalization.mean);
  const auto bytes = at::arange(256, at::kByte).view({1, 256, 1, 1}).expand({1, 256, 1, channels});
  const auto pixels = normalize(bytes, normalization, at::MemoryFormat::ChannelsLast);
  return codes_of(pixels.permute({0, 2, 3, 1}).contiguous(), affine, bits).view({256, channels});
}

at::Tensor looked_up(const at::Tensor& images, const at::Tensor& pixel_codes) {
  const auto bytes = images.contiguous();
  auto codes = at::empty_like(bytes);
  const int64_t channels = images.size(3);
  const auto* const in = bytes.const_data_ptr<uint8_t>();
  const auto* const table = pixel_codes.const_data_ptr<uint8_t>();
  auto* const out = codes.mutable_data_ptr<uint8_t>();
  at::parallel_for(0, bytes.numel() / channels, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * channels; i < end * channels; i += channels)
      for (int64_t c = 0; c < channels; ++c) out[i + c] = table[in[i + c] * channels + c];
  });
  return codes.permute({0, 3, 1, 2});
}

at::Tensor max_of_codes(const at::Tensor& codes, const Pool2dOptions& options) {
  const auto image = codes.permute({0, 2, 3, 1}).contiguous();
  const int64_t height = image.size(1), width = image.size(2), channels = image.size(3);
  const int64_t rows = pooled(height, options, 0), columns = pooled(width, options, 1);
  auto output = at::empty({image.size(0), rows, columns, channels}, at::kByte);
  const auto* const in = image.const_data_ptr<uint8_t>();
  auto* const all = output.mutable_data_ptr<uint8_t>();
  at::parallel_for(0, image.size(0) * rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto* const from = in + row / rows * height * width * channels;
      const Taps y_taps(row % rows, height, options, 0);
      for (int64_t column = 0; column < columns; ++column) {
        const Taps x_taps(column, width, options, 1);
        const ByteWindow window{
            .first = from + (y_taps.begin * width + x_taps.begin) * channels,
            .rows = y_taps.count(),
            .row_stride = y_taps.step * width * channels,
            .columns = x_taps.count(),
            .column_stride = x_taps.step * channels,
            .channels = channels,
        };
        largest_bytes(window, all + (row * columns + column) * channels);
      }
    }
  });
  return output.permute({0, 3, 1, 2});
}

at::Tensor mean_of_codes(const at::Tensor& codes, const Affine& affine) {
  const auto images = codes.permute({0, 2, 3, 1}).contiguous();
  const int64_t count = images.size(0), channels = images.size(3);
  const int64_t pixels = images.size(1) * images.size(2);
  auto means = at::empty({count, channels}, at::kFloat);
  const auto* const in = images.const_data_ptr<uint8_t>();
  auto* const out = means.mutable_data_ptr<float>();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> sums(channels);
    for (int64_t i = begin; i < end; ++i) {
      std::ranges::fill(sums, 0);
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        const auto* const from = in + (i * pixels + pixel) * channels;
        for (int64_t c = 0; c < channels; ++c) sums[c] += from[c];
      }
      for (int64_t c = 0; c < channels; ++c)
        out[i * channels + c] =
            static_cast<float>((static_cast<double>(sums[c]) / static_cast<double>(pixels) -
                                static_cast<double>(affine.zero_point)) *
                               affine.scale);
    }
  });
  return means;
}

}  // namespace composer
