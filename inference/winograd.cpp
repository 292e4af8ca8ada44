#include "inference/winograd.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "inference/winograd_simd.h"

namespace composer {
namespace {

int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

/// G g G' of 3 x 3 weights g, to be rounded once.
std::array<double, winograd_values> transformed_weight(const float* g) {
  const auto spread = [](double a, double b, double c) {
    return std::array<double, 4>{a, (a + b + c) / 2, (a - b + c) / 2, c};
  };
  std::array<std::array<double, 4>, 3> columns;
  for (size_t x = 0; x < 3; ++x) columns[x] = spread(g[x], g[3 + x], g[6 + x]);
  std::array<double, winograd_values> values;
  for (size_t y = 0; y < 4; ++y) {
    const auto row = spread(columns[0][y], columns[1][y], columns[2][y]);
    std::ranges::copy(row, values.begin() + 4 * y);
  }
  return values;
}

/// [out, in, 3, 3] -> [panels][16][channels, in whole chunks][panel].
at::Tensor in_panels(const at::Tensor& weight, int64_t panel) {
  const int64_t out = weight.size(0), in = weight.size(1);
  const int64_t channels = parts_of(in, winograd_chunk) * winograd_chunk;
  auto all = at::zeros({parts_of(out, panel), winograd_values, channels, panel});
  const auto plain = weight.contiguous();
  const auto* const from = plain.const_data_ptr<float>();
  auto* const to = all.mutable_data_ptr<float>();
  at::parallel_for(0, out, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t i = 0; i < in; ++i) {
        const auto values = transformed_weight(from + (o * in + i) * 9);
        for (int64_t k = 0; k < winograd_values; ++k)
          to[((o / panel * winograd_values + k) * channels + i) * panel + o % panel] =
              static_cast<float>(values[k]);
      }
  });
  return all;
}

WinogradTiles tiles_of(at::IntArrayRef input_shape, std::array<int64_t, 2> padding) {
  const int64_t height = input_shape[2], width = input_shape[3];
  return {.height = height,
          .width = width,
          .padding_y = padding[0],
          .padding_x = padding[1],
          .out_height = height + 2 * padding[0] - 2,
          .out_width = width + 2 * padding[1] - 2};
}

/// Weights of so many floats stay in the second-level cache from block to block.
constexpr int64_t most_near = 1 << 18;

class WinogradConv2d : public PackedLayer {
 public:
  explicit WinogradConv2d(const LayerParts& parts)
      : kernels_(winograd_kernels()),
        in_(parts.convolution->in_channels),
        out_(parts.convolution->out_channels),
        padding_(parts.convolution->padding),
        weights_(in_panels(parts.weight, kernels_.panel)),
        bias_(at::zeros({panels() * kernels_.panel})),
        zeros_(at::zeros({in_})),
        relu_(parts.activation.has_value()) {
    if (parts.bias.defined()) bias_.narrow(0, 0, out_).copy_(parts.bias);
  }

  at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const override {
    const auto images = input.contiguous(at::MemoryFormat::ChannelsLast);
    if (addend.defined()) addend = addend.contiguous(at::MemoryFormat::ChannelsLast);
    const auto tiles = tiles_of(input.sizes(), padding_);
    auto output = overwrite ? addend
                            : at::empty({input.size(0), out_, tiles.out_height, tiles.out_width},
                                        input.options(), at::MemoryFormat::ChannelsLast);
    compute({.tiles = tiles,
             .count = input.size(0) * tiles.of_image(),
             .input = images.const_data_ptr<float>(),
             .addend = addend.defined() ? addend.const_data_ptr<float>() : nullptr,
             .output = output.mutable_data_ptr<float>()});
    return output;
  }

 private:
  struct Pass {
    WinogradTiles tiles;
    int64_t count;  ///< of tiles
    const float *input, *addend;
    float* output;
  };

  int64_t chunks() const { return parts_of(in_, winograd_chunk); }
  int64_t panels() const { return weights_.size(0); }

  /// Floats of the values of so many tiles.
  int64_t values_of(int64_t tiles) const {
    return parts_of(tiles, kernels_.rows) * kernels_.rows * winograd_values * chunks() *
           winograd_chunk;
  }
  /// Weights that come from far are read once a block, which is the larger for that.
  bool far() const { return weights_.numel() > most_near; }
  int64_t most_tiles() const {
    return parts_of(far() ? most_near : most_near / 8, values_of(kernels_.rows)) * kernels_.rows;
  }

  /// Block by block by one thread each. Where there are more threads than blocks several take
  /// some panels of a block each, all after they transform its input, so they are four at most.
  void compute(const Pass& pass) const {
    const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    int64_t blocks = parts_of(pass.count, most_tiles());
    const int64_t shares = std::min({parts_of(threads, blocks), panels(), int64_t{4}});
    const int64_t together = parts_of(threads, shares);
    blocks = std::min(parts_of(blocks, together) * together, pass.count);
    at::parallel_for(0, blocks * shares, 1, [&](int64_t begin, int64_t end) {
      at::Tensor values;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t index = i / shares, share = i % shares;
        const int64_t first = index * pass.count / blocks;
        const WinogradBlock block{pass.tiles, first, (index + 1) * pass.count / blocks - first};
        if (i == begin || share == 0) values = transformed(pass, block);
        multiply(pass, block, values, share * panels() / shares, (share + 1) * panels() / shares);
      }
    });
  }

  at::Tensor transformed(const Pass& pass, const WinogradBlock& block) const {
    auto values = at::empty({values_of(block.count)});
    kernels_.transform_input(
        block, {.from = pass.input, .zeros = zeros_.const_data_ptr<float>(), .channels = in_},
        values.mutable_data_ptr<float>());
    return values;
  }

  /// Panels [begin, end) of the block's output.
  void multiply(const Pass& pass, const WinogradBlock& block, const at::Tensor& values,
                int64_t begin, int64_t end) const {
    auto sums = at::empty({winograd_values, block.count, kernels_.panel});
    for (int64_t panel = begin; panel < end; ++panel) {
      kernels_.multiply(block,
                        {.values = values.const_data_ptr<float>(),
                         .weights = weights_.const_data_ptr<float>() + panel * weights_.stride(0),
                         .chunks = chunks(),
                         .prefetched = far() ? (end - panel) * weights_.stride(0) : 0},
                        sums.mutable_data_ptr<float>());
      const int64_t channel = panel * kernels_.panel;
      kernels_.transform_output(block, sums.const_data_ptr<float>(),
                                {.bias = bias_.const_data_ptr<float>() + channel,
                                 .addend = pass.addend == nullptr ? nullptr : pass.addend + channel,
                                 .relu = relu_,
                                 .to = pass.output + channel,
                                 .channels = out_,
                                 .count = std::min(kernels_.panel, out_ - channel)});
    }
  }

  const WinogradKernels& kernels_;
  int64_t in_, out_;
  std::array<int64_t, 2> padding_;
  at::Tensor weights_, bias_, zeros_;
  bool relu_;
};

}  // namespace

bool winograd_takes(const LayerParts& parts) {
  if (parts.convolution == nullptr || parts.weight.scalar_type() != at::kFloat ||
      winograd_kernels().panel == 0)
    return false;
  const auto& [in, out, kernel, stride, padding, dilation, groups, bias] = *parts.convolution;
  constexpr std::array<int64_t, 2> one{1, 1}, three{3, 3};
  if (kernel != three || stride != one || dilation != one || groups != 1 || in < 32 || out < 32 ||
      (parts.activation && *parts.activation != OperationKind::relu))
    return false;
  const auto tiles = tiles_of(parts.input_shape, padding);
  const int64_t weights = winograd_values * in * out;
  return 9 * tiles.out_height * tiles.out_width * 2 >= 3 * winograd_values * tiles.of_image() &&
         (weights <= most_near || tiles.of_image() >= 16);
}

std::unique_ptr<PackedLayer> packed_by_winograd(const LayerParts& parts) {
  return std::make_unique<WinogradConv2d>(parts);
}

}  // namespace composer
