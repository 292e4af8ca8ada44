#include "inference/code_winograd.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "composer/simd.h"
#include "inference/code_winograd_dots.h"
#include "inference/requantizer.h"
#include "inference/tile_layer.h"
#include "inference/winograd_blocks.h"

namespace composer {

#ifdef COMPOSER_X86
namespace {

using namespace code_winograd;

/// G g G' of 3 x 3 weights.
std::array<int16_t, values> transformed_weight(const int8_t* g) {
  std::array<int16_t, values> all;
  auto* to = all.data();
  for (const auto& of_y : weight_rows)
    for (const auto& of_x : weight_rows) {
      int sum = 0;
      for (size_t y = 0; y < 3; ++y)
        for (size_t x = 0; x < 3; ++x) sum += of_y[y] * of_x[x] * g[3 * y + x];
      *to++ = static_cast<int16_t>(sum);
    }
  return all;
}

/// [out, in, 3, 3] -> [panels][values][channels in pairs, of whole chunks][panel][2].
at::Tensor in_panels(const at::Tensor& weight) {
  const int64_t out = weight.size(0), in = weight.size(1);
  const int64_t channels = at::divup(in, chunk) * chunk;
  auto all = at::zeros({at::divup(out, panel), values, channels / 2, panel, 2}, at::kShort);
  const auto plain = weight.contiguous();
  const auto* const from = plain.const_data_ptr<int8_t>();
  auto* const to = all.mutable_data_ptr<int16_t>();
  at::parallel_for(0, out, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t i = 0; i < in; ++i) {
        const auto of_pair = transformed_weight(from + (o * in + i) * 9);
        for (int64_t k = 0; k < values; ++k)
          to[(((o / panel * values + k) * channels + i) / 2 * panel + o % panel) * 2 + i % 2] =
              of_pair[static_cast<size_t>(k)];
      }
  });
  return all;
}

/// Weights of so many bytes stay in the second-level cache from block to block.
constexpr int64_t most_near = 1 << 19;

int64_t weight_bytes(int64_t in, int64_t out) { return 2 * values * in * out; }

class CodeWinogradConv2d : public PackedLayer {
 public:
  CodeWinogradConv2d(const LayerParts& parts, const LayerCodes& codes)
      : in_(parts.convolution->in_channels),
        out_(parts.convolution->out_channels),
        padding_(parts.convolution->padding),
        requantizer_(parts, codes),
        weights_(in_panels(parts.weight)),
        pixel_of_padding_(at::full({in_}, codes.input.zero_point, at::kByte)) {}

  at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const override {
    const auto images = input.contiguous(at::MemoryFormat::ChannelsLast);
    if (addend.defined()) addend = addend.contiguous(at::MemoryFormat::ChannelsLast);
    const auto tiles = winograd_tiles(tile_size, input.sizes().vec(), padding_);
    const auto output = overwrite
                            ? addend
                            : at::empty({input.size(0), out_, tiles.out_height, tiles.out_width},
                                        input.options(), at::MemoryFormat::ChannelsLast);
    compute(tiles, images, requantizer_(addend, output));
    return output;
  }

 private:
  int64_t chunks() const { return at::divup(in_, chunk); }
  int64_t panels() const { return weights_.size(0); }
  int64_t panel_values() const { return weights_.stride(0); }
  bool far() const { return weights_.nbytes() > most_near; }

  int64_t value_bytes(int64_t tiles) const {
    return at::divup(tiles, rows) * rows * values * chunks() * chunk * 2;
  }
  int64_t most_tiles() const {
    return at::divup(far() ? most_near : most_near / 4, value_bytes(rows)) * rows;
  }

  void compute(const WinogradTiles& tiles, const at::Tensor& images,
               const code_tiles::Requantization& layer) const {
    compute_winograd({.tiles = tiles,
                      .count = images.size(0) * tiles.of_image(),
                      .most_tiles = most_tiles(),
                      .panels = panels(),
                      .value_bytes = [this](int64_t count) { return value_bytes(count); },
                      .transform =
                          [&](const WinogradBlock& block, WinogradShare share, void* to) {
                            const int64_t parts = at::divup(block.count, rows);
                            transform_input(block,
                                            {.from = images.const_data_ptr<uint8_t>(),
                                             .padding = pixel_of_padding_.const_data_ptr<uint8_t>(),
                                             .channels = in_},
                                            share.begin(parts), share.end(parts),
                                            static_cast<int16_t*>(to));
                          },
                      .multiply =
                          [&](const WinogradBlock& block, WinogradShare share, const void* from) {
                            multiply_panels(block, share, static_cast<const int16_t*>(from), layer);
                          }});
  }

  void multiply_panels(const WinogradBlock& block, WinogradShare share, const int16_t* from,
                       const code_tiles::Requantization& layer) const {
    const auto sums = at::empty({values, block.count, panel}, at::kInt);
    const int64_t begin = share.begin(panels()), end = share.end(panels());
    const auto* weights = weights_.const_data_ptr<int16_t>() + begin * panel_values();
    for (int64_t index = begin; index < end; ++index, weights += panel_values()) {
      multiply(block,
               {.values = from,
                .weights = weights,
                .chunks = chunks(),
                .prefetched = far() ? (end - index) * panel_values() * 2 : 0},
               sums.mutable_data_ptr<int32_t>());
      transform_output(block, sums.const_data_ptr<int32_t>(), layer, index);
    }
  }

  int64_t in_, out_;
  std::array<int64_t, 2> padding_;
  Requantizer requantizer_;
  at::Tensor weights_, pixel_of_padding_;
};

/// Of codes, which are not negative.
bool sums_are_small(const at::Tensor& weight) {
  const auto flat = weight.flatten(1).to(at::kInt);
  const auto most = std::max(flat.clamp_min(0).sum(1).max().item<int64_t>(),
                             flat.clamp_max(0).sum(1).neg().max().item<int64_t>());
  return most * 255 < most_sum;
}

}  // namespace

bool code_winograd_takes(const LayerParts& parts, const LayerCodes& codes) {
  if (!code_instructions() || parts.convolution == nullptr || !codes.output) return false;
  const auto& [in, out, kernel, stride, padding, dilation, groups, bias] = *parts.convolution;
  constexpr std::array<int64_t, 2> one{1, 1}, three{3, 3};
  return kernel == three && stride == one && dilation == one && groups == 1 &&
         tile_layer_takes(parts, codes) && sums_are_small(parts.weight);
}

bool code_winograd_is_quicker(const LayerParts& parts) {
  const int64_t in = parts.convolution->in_channels, out = parts.convolution->out_channels;
  if (code_instructions() != CodeInstructions::avx512_vnni || in < chunk || out < panel)
    return false;
  const auto tiles = winograd_tiles(tile_size, parts.input_shape, parts.convolution->padding);
  // Cycles, of an image. To read weights that come from far takes as long as products of 8 tiles.
  const bool far = weight_bytes(in, out) > most_near;
  const int64_t count = tiles.of_image(), multiplied = far ? std::max<int64_t>(count, 8) : count;
  const int64_t transforms = count * (150 * in / chunk + 200 * out / code_tiles::channels);
  const int64_t cost = multiplied * values * in * out / 32 + transforms;
  return cost < tiles.out_height * tiles.out_width * 9 * in * out / 64;
}

std::unique_ptr<PackedLayer> packed_by_code_winograd(const LayerParts& parts,
                                                     const LayerCodes& codes) {
  return std::make_unique<CodeWinogradConv2d>(parts, codes);
}

#else

bool code_winograd_takes(const LayerParts&, const LayerCodes&) { return false; }

bool code_winograd_is_quicker(const LayerParts&) { return false; }

std::unique_ptr<PackedLayer> packed_by_code_winograd(const LayerParts&, const LayerCodes&) {
  TORCH_CHECK(false, "code_winograd: for x86 processors");
}

#endif

}  // namespace composer
