#include "inference/int8_winograd_layer.h"

#include <ATen/Parallel.h>

#include "base/simd.h"
#include "inference/int8_layer.h"
#include "inference/int8_winograd.h"
#include "inference/requantizer.h"
#include "inference/winograd_blocks.h"

namespace composer {

#ifdef COMPOSER_X86
namespace int8_winograd {
namespace {

constexpr int weight_rows[6][3]{{6, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};

/// G g G' of 3 x 3 weights.
std::array<int16_t, value_count> transformed_weight(const int8_t* g) {
  std::array<int16_t, value_count> all;
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

/// [out, in, 3, 3] -> [panels][values][pairs of channels, padded to chunks][panel][2].
at::Tensor in_panels(const at::Tensor& weight) {
  const int64_t out = weight.size(0), in = weight.size(1);
  const int64_t channels = at::divup(in, chunk) * chunk;
  auto all = at::zeros({at::divup(out, panel), value_count, channels / 2, panel, 2}, at::kShort);
  const auto plain = weight.contiguous();
  const auto* const from = plain.const_data_ptr<int8_t>();
  auto* const to = all.mutable_data_ptr<int16_t>();
  at::parallel_for(0, out, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t i = 0; i < in; ++i) {
        const auto of_pair = transformed_weight(from + (o * in + i) * 9);
        for (int64_t k = 0; k < value_count; ++k)
          to[(((o / panel * value_count + k) * channels + i) / 2 * panel + o % panel) * 2 + i % 2] =
              of_pair[static_cast<size_t>(k)];
      }
  });
  return all;
}

/// Most bytes of weights that stay in the second-level cache from block to block.
constexpr int64_t most_near_bytes = 1 << 19;
/// Most bytes of a block's transformed input where the weights stay in the cache.
constexpr int64_t most_value_bytes = 1 << 17;

int64_t rounded_up(int64_t count, int64_t to) { return at::divup(count, to) * to; }

class Int8WinogradConv2d : public PackedLayer {
 public:
  Int8WinogradConv2d(const LayerParts& parts, const LayerCodes& codes)
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
  bool far() const { return weights_.nbytes() > most_near_bytes; }

  int64_t value_bytes(int64_t tiles) const {
    return at::divup(tiles, rows) * rows * value_count * chunks() * chunk * 2;
  }
  int64_t most_tiles() const {
    return at::divup(far() ? most_near_bytes : most_value_bytes, value_bytes(rows)) * rows;
  }

  void compute(const WinogradTiles& tiles, const at::Tensor& images,
               const int8_amx::Requantization& layer) const {
    compute_winograd({.tiles = tiles,
                      .count = images.size(0) * tiles.of_image(),
                      .most_tiles = most_tiles(),
                      .panels = panels(),
                      .value_bytes = [this](int64_t count) { return value_bytes(count); },
                      .transform =
                          [&](const WinogradBlock& block, WinogradShare share, void* to) {
                            const int64_t parts = WinogradPart::count(block, rows);
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
                       const int8_amx::Requantization& layer) const {
    const auto sums = at::empty({value_count, block.count, panel}, at::kInt);
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

/// Whether all sums of codes, which are not negative, are below most_sum.
bool sums_are_small(const at::Tensor& weight) {
  const auto flat = weight.flatten(1).to(at::kInt);
  const auto most = std::max(flat.clamp_min(0).sum(1).max().item<int64_t>(),
                             flat.clamp_max(0).sum(1).neg().max().item<int64_t>());
  return most * 255 < most_sum;
}

bool is_quicker(const LayerParts& parts) {
  const auto& convolution = *parts.convolution;
  if (int8_instructions() != Int8Instructions::avx512_vnni || convolution.in_channels < chunk ||
      convolution.out_channels < panel)
    return false;
  const int64_t in = rounded_up(convolution.in_channels, chunk);
  const int64_t out = rounded_up(convolution.out_channels, panel);
  const auto tiles = winograd_tiles(tile_size, parts.input_shape, convolution.padding);
  // Costs are cycles per image. Reading weights from outside the cache takes as long as the
  // products of 8 tiles. Where there are more threads than panels, several threads read the same
  // weights.
  const int64_t readers = at::divup(at::get_num_threads(), out / panel);
  const bool far = 2 * value_count * in * out > most_near_bytes;
  const int64_t count = tiles.of_image();
  const int64_t multiplied = far ? std::max(count, 8 * readers) : count;
  const int64_t transforms = count * (150 * in / chunk + 200 * out / int8_amx::channels);
  const int64_t cost = multiplied * value_count * in * out / 32 + transforms;
  return cost < tiles.out_height * tiles.out_width * 9 * convolution.in_channels *
                    rounded_up(convolution.out_channels, int8_amx::channels) / 64;
}

}  // namespace
}  // namespace int8_winograd

bool int8_winograd_takes(const LayerParts& parts, const LayerCodes& codes) {
  return parts.convolution != nullptr && is_for_winograd(*parts.convolution) && codes.output &&
         int8_layer_takes(parts, codes) && int8_winograd::sums_are_small(parts.weight);
}

bool int8_winograd_is_quicker(const LayerParts& parts) { return int8_winograd::is_quicker(parts); }

std::unique_ptr<PackedLayer> packed_by_int8_winograd(const LayerParts& parts,
                                                     const LayerCodes& codes) {
  return std::make_unique<int8_winograd::Int8WinogradConv2d>(parts, codes);
}

#else

bool int8_winograd_takes(const LayerParts&, const LayerCodes&) { return false; }

bool int8_winograd_is_quicker(const LayerParts&) { return false; }

std::unique_ptr<PackedLayer> packed_by_int8_winograd(const LayerParts&, const LayerCodes&) {
  TORCH_CHECK(false, "int8_winograd: for x86 processors");
}

#endif

}  // namespace composer
