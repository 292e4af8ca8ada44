#include "nn/network/weight_gradient.h"

#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <span>

#include "base/simd.h"
#include "nn/device/cpu_instructions.h"

namespace composer {

#ifdef COMPOSER_X86
namespace {

int64_t divided_down(int64_t value, int64_t by) {
  return value >= 0 ? value / by : -at::divup(-value, by);
}

/// One of a convolution's two dimensions. Output position i meets tap t at input position (i +
/// step(t)) * stride + phase(t): the input positions of one phase form a row, in which each tap is
/// a shift.
struct Axis {
  int64_t input, output, kernel, stride, padding;

  int64_t step(int64_t tap) const { return divided_down(tap - padding, stride); }
  int64_t phase(int64_t tap) const { return tap - padding - step(tap) * stride; }
  int64_t before() const { return std::max<int64_t>(0, -step(0)); }
  int64_t after() const { return std::max<int64_t>(0, step(kernel - 1)); }

  /// Length of the row, padding included. Rows follow each other: the padding after one may be the
  /// padding before the next.
  int64_t pitch() const {
    const bool shared = output * stride >= input || before() == 0;
    return output + (shared ? std::max(before(), after()) : before() + after());
  }
};

/// The positions of all pixels in one long row: sample by sample, row by row, with padding in
/// between.
struct Grid {
  Axis height, width;
  int64_t samples;

  int64_t image() const { return height.pitch() * width.pitch(); }
  int64_t positions() const { return samples * image(); }
  int64_t tiles() const { return at::divup(positions(), tiles::pixels); }
};

using Pixels = std::span<const uint16_t*>;

/// A tensor's pixels as positions of a Grid.
struct Source {
  const uint16_t* data;
  int64_t samples, height, width, channels;
  int64_t stride = 1;                           ///< between the pixels that are taken
  int64_t first_row = 0, first_column = 0;      ///< the first pixel that is taken
  int64_t rows_before = 0, columns_before = 0;  ///< padding before the pixels

  /// Pointers to the pixels from position `first` on; padding gets `zeros`.
  void locate(const Grid& grid, int64_t first, const uint16_t* zeros, Pixels to) const {
    const int64_t pitch = grid.width.pitch(), rows = grid.height.pitch();
    int64_t line = first / pitch, column = first % pitch;
    for (size_t done = 0; done < to.size(); ++line, column = 0) {
      const auto count = std::min(to.size() - done, static_cast<size_t>(pitch - column));
      locate_in_line(line / rows, line % rows - rows_before, column - columns_before, zeros,
                     to.subspan(done, count));
      done += count;
    }
  }

 private:
  void locate_in_line(int64_t sample, int64_t row, int64_t column, const uint16_t* zeros,
                      Pixels to) const {
    const int64_t y = row * stride + first_row;
    const bool outside = sample >= samples || row < 0 || y >= height;
    const auto count = static_cast<int64_t>(to.size());
    const int64_t inside = at::divup(width - first_column, stride);  // all columns
    const int64_t begin = outside ? count : std::clamp<int64_t>(-column, 0, count);
    const int64_t end = outside ? count : std::clamp<int64_t>(inside - column, begin, count);
    std::fill(to.begin(), to.begin() + begin, zeros);
    std::fill(to.begin() + end, to.end(), zeros);
    if (begin == end) return;
    const uint16_t* pixel =
        data +
        ((sample * height + y) * width + (column + begin) * stride + first_column) * channels;
    for (int64_t i = begin; i < end; ++i, pixel += stride * channels) to[i] = pixel;
  }
};

/// The division of the work into position_parts * channel_parts tasks: each sums over a part of the
/// positions for a part of the output channels.
struct Cut {
  int64_t position_parts, channel_parts;
};

constexpr int64_t block_values = tiles::channels * tiles::channels;
constexpr int64_t tile_bytes = tiles::values * 2, block_bytes = block_values * 4;
/// Memory of a task's tiles at one time; they fit a core's own cache.
constexpr int64_t cache_bytes = 1 << 20;
/// Larger sums are not kept once per thread.
constexpr int64_t most_sum_bytes = 768 << 10;

class WeightGradient {
 public:
  WeightGradient(const at::Tensor& input, const at::Tensor& gradient, const Conv2dOptions& options,
                 tiles::Instructions instructions)
      : instructions_(instructions),
        grid_{{input.size(2), gradient.size(2), options.kernel[0], options.stride[0],
               options.padding[0]},
              {input.size(3), gradient.size(3), options.kernel[1], options.stride[1],
               options.padding[1]},
              input.size(0)},
        in_blocks_(at::divup(input.size(1), tiles::channels)),
        out_blocks_(at::divup(gradient.size(1), tiles::channels)),
        gradient_(source(gradient)),
        zeros_(std::max(input.size(1), gradient.size(1)), 0) {
    for (int64_t y = 0; y < options.kernel[0]; ++y)
      for (int64_t x = 0; x < options.kernel[1]; ++x) add_tap(input, y, x);
    columns_ = in_blocks_ * static_cast<int64_t>(taps_.size());
    cut();
  }

  at::Tensor run() {
    const auto bytes = at::TensorOptions().dtype(at::kByte);
    const int64_t count = cut_.position_parts * cut_.channel_parts;
    sums_ = at::empty({count, sums_of_task()}, bytes.dtype(at::kFloat));
    const auto scratch = at::empty({count, input_bytes() + gradient_bytes()}, bytes);
    auto* const sums = sums_.data_ptr<float>();
    auto* const memory = scratch.data_ptr<uint8_t>();
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      const tiles::Scope scope(instructions_);
      for (int64_t task = begin; task < end; ++task)
        sum_part(task, reinterpret_cast<uint16_t*>(memory + task * scratch.size(1)),
                 sums + task * sums_of_task());
    });
    return gathered();
  }

 private:
  struct Tap {
    size_t source;
    int64_t shift;  ///< offset in the grid
  };

  static Source source(const at::Tensor& tensor) {
    return {reinterpret_cast<const uint16_t*>(tensor.const_data_ptr<at::BFloat16>()),
            tensor.size(0), tensor.size(2), tensor.size(3), tensor.size(1)};
  }

  void add_tap(const at::Tensor& input, int64_t y, int64_t x) {
    auto wanted = source(input);
    const auto &height = grid_.height, &width = grid_.width;
    wanted.stride = height.stride;
    wanted.first_row = height.phase(y), wanted.first_column = width.phase(x);
    wanted.rows_before = height.before(), wanted.columns_before = width.before();
    const auto same = [&](const Source& other) {
      return other.first_row == wanted.first_row && other.first_column == wanted.first_column;
    };
    const auto found = std::ranges::find_if(inputs_, same);
    const auto index = static_cast<size_t>(found - inputs_.begin());
    if (found == inputs_.end()) inputs_.push_back(wanted);
    const int64_t shift =
        (height.step(y) + height.before()) * width.pitch() + width.step(x) + width.before();
    taps_.push_back({index, shift});
    least_shift_ = std::min(least_shift_, shift), most_shift_ = std::max(most_shift_, shift);
  }

  /// Odd shifts need pairs of pixels that begin at odd positions.
  int64_t versions() const { return most_shift_ > least_shift_ ? 2 : 1; }

  void cut() {
    const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    const bool twice = out_blocks_ * columns_ * block_bytes <= most_sum_bytes;
    cut_.channel_parts = twice ? 1 : std::min(threads, out_blocks_);
    const int64_t most = std::max<int64_t>(1, grid_.tiles());
    cut_.position_parts = std::min(most, twice ? threads : at::divup(threads, cut_.channel_parts));
    part_blocks_ = at::divup(out_blocks_, cut_.channel_parts);
    const auto inputs = static_cast<int64_t>(inputs_.size()) * versions() * in_blocks_;
    chunk_ = std::clamp<int64_t>(cache_bytes / ((inputs + part_blocks_) * tile_bytes), 4, 64);
    pairs_ = chunk_ * tiles::pixels / 2 + at::divup(most_shift_ - least_shift_, 2) + 1;
  }

  int64_t input_values() const { return in_blocks_ * pairs_ * 2 * tiles::channels; }
  int64_t input_bytes() const {
    return static_cast<int64_t>(inputs_.size()) * versions() * input_values() * 2;
  }
  int64_t gradient_bytes() const { return part_blocks_ * chunk_ * tile_bytes; }

  int64_t sums_of_task() const { return part_blocks_ * columns_ * block_values; }

  void sum_part(int64_t task, uint16_t* scratch, float* sums) const {
    const int64_t part = task % cut_.position_parts, channels = task / cut_.position_parts;
    const int64_t end = grid_.tiles() * (part + 1) / cut_.position_parts;
    std::fill_n(sums, sums_of_task(), 0.0f);
    std::vector<const uint16_t*> pixels((chunk_ + 1) * tiles::pixels +
                                        static_cast<size_t>(most_shift_ - least_shift_ + 2));
    uint16_t* const gradient = scratch + input_bytes() / 2;
    for (int64_t tile = grid_.tiles() * part / cut_.position_parts; tile < end; tile += chunk_) {
      const int64_t count = std::min(chunk_, end - tile);
      take_inputs(tile * tiles::pixels, count, pixels, scratch);
      const int64_t blocks = take_gradient(tile * tiles::pixels, count, channels, pixels, gradient);
      multiply(scratch, gradient, blocks, count, sums);
    }
  }

  void take_inputs(int64_t first, int64_t count, Pixels pixels, uint16_t* to) const {
    const int64_t pairs = count * tiles::pixels / 2 + at::divup(most_shift_ - least_shift_, 2);
    for (const auto& input : inputs_) {
      input.locate(grid_, first + least_shift_, zeros_.data(),
                   pixels.first(static_cast<size_t>(2 * pairs + versions() - 1)));
      for (int64_t version = 0; version < versions(); ++version, to += input_values())
        tiles::interleave(pixels.data() + version, pairs, input.channels, pairs_, to);
    }
  }

  /// Returns the number of blocks of channels in the part.
  int64_t take_gradient(int64_t first, int64_t count, int64_t part, Pixels pixels,
                        uint16_t* to) const {
    const int64_t channel = part * part_blocks_ * tiles::channels;
    const int64_t channels = std::min(part_blocks_ * tiles::channels, gradient_.channels - channel);
    if (channels <= 0) return 0;
    auto part_of = gradient_;
    part_of.data += channel;
    part_of.locate(grid_, first, zeros_.data(),
                   pixels.first(static_cast<size_t>(count * tiles::pixels)));
    tiles::transpose(pixels.data(), count, channels, to);
    return at::divup(channels, tiles::channels);
  }

  void multiply(const uint16_t* inputs, const uint16_t* gradient, int64_t blocks, int64_t count,
                float* sums) const {
    tiles::Product product{{}, {}, {}, 0, 0, count};
    for (int64_t block = 0; block < blocks; block += product.rows) {
      product.rows = static_cast<int>(std::min<int64_t>(2, blocks - block));
      const int most = tiles::Product::most_columns[product.rows - 1];
      for (int64_t column = 0; column < columns_; column += product.columns) {
        product.columns = static_cast<int>(std::min<int64_t>(most, columns_ - column));
        for (int i = 0; i < product.columns; ++i) {
          product.right[i] = right_factor(inputs, column + i);
          for (int row = 0; row < product.rows; ++row)
            product.sums[row][i] = sums + ((block + row) * columns_ + column + i) * block_values;
        }
        for (int row = 0; row < product.rows; ++row)
          product.left[row] = gradient + (block + row) * count * tiles::values;
        tiles::multiply(product, instructions_);
      }
    }
  }

  const uint16_t* right_factor(const uint16_t* inputs, int64_t column) const {
    const auto count = static_cast<int64_t>(taps_.size());
    const auto& [source, shift] = taps_[static_cast<size_t>(column % count)];
    const int64_t offset = shift - least_shift_, version = offset % 2;
    const int64_t pair = column / count * pairs_ + offset / 2;
    return inputs + (static_cast<int64_t>(source) * versions() + version) * input_values() +
           pair * 2 * tiles::channels;
  }

  /// The sums of all tasks, in the weight's order.
  at::Tensor gathered() const {
    const auto taps = static_cast<int64_t>(taps_.size()), in = inputs_.front().channels;
    const auto result = at::empty({gradient_.channels, grid_.height.kernel, grid_.width.kernel, in},
                                  sums_.options());
    float* const to = result.data_ptr<float>();
    at::parallel_for(0, gradient_.channels, 4, [&](int64_t begin, int64_t end) {
      for (int64_t out = begin; out < end; ++out)
        for (int64_t tap = 0; tap < taps; ++tap)
          for (int64_t block = 0; block < in_blocks_; ++block)
            gather_row(out, block * taps + tap,
                       std::span(to + (out * taps + tap) * in, static_cast<size_t>(in))
                           .subspan(static_cast<size_t>(block * tiles::channels)));
    });
    return result.permute({0, 3, 1, 2});
  }

  /// `to`: the input channels of a block.
  void gather_row(int64_t out, int64_t column, std::span<float> to) const {
    const int64_t block = out / tiles::channels, part = block / part_blocks_;
    const int64_t index = (block % part_blocks_ * columns_ + column) * block_values +
                          out % tiles::channels * tiles::channels;
    const float* from =
        sums_.const_data_ptr<float>() + part * cut_.position_parts * sums_of_task() + index;
    const size_t count = std::min<size_t>(to.size(), tiles::channels);
    std::copy_n(from, count, to.begin());
    for (int64_t i = 1; i < cut_.position_parts; ++i) {
      from += sums_of_task();
      for (size_t c = 0; c < count; ++c) to[c] += from[c];
    }
  }

  tiles::Instructions instructions_;
  Grid grid_;
  int64_t in_blocks_, out_blocks_;
  Source gradient_;
  std::vector<Source> inputs_;  ///< one source per phase
  std::vector<Tap> taps_;
  std::vector<uint16_t> zeros_;
  int64_t least_shift_ = std::numeric_limits<int64_t>::max(), most_shift_ = 0;
  int64_t columns_ = 0;  ///< blocks of the right factor: blocks of channels times taps
  Cut cut_{};
  int64_t part_blocks_ = 0;  ///< blocks of output channels of a task
  int64_t chunk_ = 0;        ///< tiles at one time
  int64_t pairs_ = 0;        ///< pairs of the input's pixels at one time
  at::Tensor sums_;          ///< [tasks, blocks * 16 * 16]
};

std::optional<tiles::Instructions> best_instructions() {
  const auto most = permitted_tiles();
  if (most == "none" || !has_instructions("avx512_bf16") || !has_instructions("avx512_bw") ||
      !has_instructions("avx512_vl"))
    return std::nullopt;
  const bool amx = most != "avx512_bf16" && has_instructions("amx_tile") &&
                   has_instructions("amx_bf16") && at::cpu::init_amx();
  return amx ? tiles::Instructions::amx_bf16 : tiles::Instructions::avx512_bf16;
}

}  // namespace

std::string_view permitted_tiles() {
  const char* const word = std::getenv("COMPOSER_TILES");
  return word == nullptr ? "" : word;
}

std::optional<tiles::Instructions> tile_instructions() {
  static const auto best = best_instructions();
  return best;
}

at::Tensor weight_gradient(const at::Tensor& input, const at::Tensor& gradient,
                           const Conv2dOptions& options, tiles::Instructions instructions) {
  return WeightGradient(input, gradient, options, instructions).run();
}

#else

std::optional<tiles::Instructions> tile_instructions() { return std::nullopt; }

at::Tensor weight_gradient(const at::Tensor&, const at::Tensor&, const Conv2dOptions&,
                           tiles::Instructions) {
  TORCH_CHECK(false, "weight_gradient: for x86 processors");
}

#endif

bool weight_gradient_takes(const Conv2dOptions& options) {
  return options.groups == 1 && options.stride[0] == options.stride[1] &&
         options.dilation == std::array<int64_t, 2>{1, 1};
}

}  // namespace composer
