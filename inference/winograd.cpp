#include "inference/winograd.h"

#include <ATen/Parallel.h>

#include <numbers>

#include "inference/winograd_blocks.h"
#include "inference/winograd_simd.h"

namespace composer {
namespace {

constexpr int64_t most_values = 36;

/// G g of the weights g = (a, b, c).
std::array<double, 6> spread(int64_t size, double a, double b, double c) {
  if (size == 2) return {a, (a + b + c) / 2, (a - b + c) / 2, c};
  const double odd = b * std::numbers::sqrt2 / 2, even = a + c / 2, even2 = a + 2 * c;
  return {a, (even + odd) / -1.5, (even - odd) / -1.5, (even2 + 2 * odd) / 6, (even2 - 2 * odd) / 6,
          c};
}

/// G g G' of 3 x 3 weights g, in double so that each value is rounded once.
std::array<double, most_values> transformed_weight(int64_t size, const float* g) {
  std::array<std::array<double, 6>, 3> columns;
  for (size_t x = 0; x < 3; ++x) columns[x] = spread(size, g[x], g[3 + x], g[6 + x]);
  std::array<double, most_values> values;
  auto* to = values.data();
  for (int64_t y = 0; y < size + 2; ++y, to += size + 2) {
    const auto of = [&](size_t x) { return columns[x][static_cast<size_t>(y)]; };
    std::copy_n(spread(size, of(0), of(1), of(2)).data(), size + 2, to);
  }
  return values;
}

/// [out, in, 3, 3] -> [panels][values][channels, padded to chunks][panel].
at::Tensor in_panels(const at::Tensor& weight, int64_t size, int64_t panel) {
  const int64_t out = weight.size(0), in = weight.size(1), count = (size + 2) * (size + 2);
  const int64_t channels = at::divup(in, winograd_chunk) * winograd_chunk;
  auto all = at::zeros({at::divup(out, panel), count, channels, panel});
  const auto plain = weight.contiguous();
  const auto* const from = plain.const_data_ptr<float>();
  auto* const to = all.mutable_data_ptr<float>();
  at::parallel_for(0, out, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t i = 0; i < in; ++i) {
        const auto values = transformed_weight(size, from + (o * in + i) * 9);
        for (int64_t k = 0; k < count; ++k)
          to[((o / panel * count + k) * channels + i) * panel + o % panel] =
              static_cast<float>(values[static_cast<size_t>(k)]);
      }
  });
  return all;
}

/// Most floats of weights that stay in the second-level cache from block to block.
constexpr int64_t most_near = 1 << 18;

class WinogradConv2d : public PackedLayer {
 public:
  WinogradConv2d(const LayerParts& parts, int64_t size)
      : size_(size),
        kernels_(winograd_kernels(size)),
        in_(parts.convolution->in_channels),
        out_(parts.convolution->out_channels),
        padding_(parts.convolution->padding),
        weights_(in_panels(parts.weight, size, kernels_.panel)),
        bias_(at::zeros({panels() * kernels_.panel})),
        zeros_(at::zeros({in_})),
        relu_(parts.activation.has_value()) {
    if (parts.bias.defined()) bias_.narrow(0, 0, out_).copy_(parts.bias);
  }

  at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const override {
    const auto images = input.contiguous(at::MemoryFormat::ChannelsLast);
    if (addend.defined()) addend = addend.contiguous(at::MemoryFormat::ChannelsLast);
    const auto tiles = winograd_tiles(size_, input.sizes().vec(), padding_);
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
    int64_t count;  ///< number of tiles
    const float *input, *addend;
    float* output;
  };

  int64_t chunks() const { return at::divup(in_, winograd_chunk); }
  int64_t panels() const { return weights_.size(0); }

  /// Floats that the values of `tiles` tiles take.
  int64_t values_of(int64_t tiles) const {
    return at::divup(tiles, kernels_.rows) * kernels_.rows * weights_.size(1) * chunks() *
           winograd_chunk;
  }
  /// Whether the weights do not stay in the cache. They are read once per block then, and blocks
  /// are larger.
  bool far() const { return weights_.numel() > most_near; }
  int64_t most_tiles() const {
    return at::divup(far() ? most_near : most_near / 8, values_of(kernels_.rows)) * kernels_.rows;
  }

  void compute(const Pass& pass) const {
    const auto bind = [&](auto step) {
      return [this, &pass, step](const WinogradBlock& block, WinogradShare share, void* values) {
        (this->*step)(pass, block, share, static_cast<float*>(values));
      };
    };
    compute_winograd({.tiles = pass.tiles,
                      .count = pass.count,
                      .most_tiles = most_tiles(),
                      .panels = panels(),
                      .value_bytes =
                          [this](int64_t tiles) {
                            return values_of(tiles) * static_cast<int64_t>(sizeof(float));
                          },
                      .transform = bind(&WinogradConv2d::transform),
                      .multiply = bind(&WinogradConv2d::multiply)});
  }

  /// Transforms a share of the block's parts.
  void transform(const Pass& pass, const WinogradBlock& block, WinogradShare share,
                 float* values) const {
    const int64_t parts = at::divup(block.count, kernels_.rows);
    kernels_.transform_input(
        block, {.from = pass.input, .zeros = zeros_.const_data_ptr<float>(), .channels = in_},
        share.begin(parts), share.end(parts), values);
  }

  /// Computes a share of the panels of the block's output.
  void multiply(const Pass& pass, const WinogradBlock& block, WinogradShare share,
                const float* values) const {
    auto sums = at::empty({weights_.size(1), block.count, kernels_.panel});
    const int64_t begin = share.begin(panels()), end = share.end(panels());
    for (int64_t panel = begin; panel < end; ++panel) {
      kernels_.multiply(block,
                        {.values = values,
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

  int64_t size_;
  const WinogradKernels& kernels_;
  int64_t in_, out_;
  std::array<int64_t, 2> padding_;
  at::Tensor weights_, bias_, zeros_;
  bool relu_;
};

}  // namespace

int64_t winograd_tile_size(const LayerParts& parts) {
  if (parts.convolution == nullptr || parts.weight.scalar_type() != at::kFloat ||
      winograd_kernels(2).panel == 0)
    return 0;
  const auto& convolution = *parts.convolution;
  const int64_t in = convolution.in_channels, out = convolution.out_channels;
  if (!is_for_winograd(convolution) || in < 32 || out < 32 ||
      (parts.activation && *parts.activation != OperationKind::relu))
    return 0;
  // Costs are products per image and pair of channels; a product of oneDNN's counts 7/8.
  const auto pixels = winograd_tiles(2, parts.input_shape, convolution.padding);
  int64_t best = 0, least = 9 * pixels.out_height * pixels.out_width * 7 / 8;
  for (const int64_t size : {2, 4}) {
    const auto tiles = winograd_tiles(size, parts.input_shape, convolution.padding);
    const bool far = tiles.values() * in * out > most_near;
    const int64_t cost = tiles.values() * (tiles.of_image() + (far ? 8 : 1));
    if (cost < least) best = size, least = cost;
  }
  return best;
}

std::unique_ptr<PackedLayer> packed_by_winograd(const LayerParts& parts, int64_t tile_size) {
  return std::make_unique<WinogradConv2d>(parts, tile_size);
}

}  // namespace composer
