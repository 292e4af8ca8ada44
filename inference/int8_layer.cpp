#include "inference/int8_layer.h"

#include <ATen/Parallel.h>

#include <limits>

#include "base/simd.h"
#include "inference/int8_amx.h"
#include "inference/int8_lines.h"
#include "inference/requantizer.h"
#include "nn/device/cpu_allocator.h"
#include "nn/device/cpu_instructions.h"
#include "nn/network/weight_gradient.h"

namespace composer {

#ifdef COMPOSER_X86
namespace {

/// A linear layer is a convolution of images of one pixel.
Conv2dOptions options_of(const LayerParts& parts) {
  if (parts.convolution != nullptr) return *parts.convolution;
  return {
      .in_channels = parts.weight.size(1), .out_channels = parts.weight.size(0), .kernel = {1, 1}};
}

std::vector<int64_t> images_of(const LayerParts& parts) {
  if (parts.convolution != nullptr) return parts.input_shape;
  return {1, parts.weight.size(1), 1, 1};
}

/// How the work is divided: parts of the lines times parts of the blocks of output channels.
struct TileCut {
  int64_t line_parts, block_parts;

  int64_t tasks() const { return line_parts * block_parts; }
};

struct TileRange {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
  TileRange part(int64_t index, int64_t count) const {
    return {begin + size() * index / count, begin + size() * (index + 1) / count};
  }
};

/// The kernel for a set of instructions. The unit of costs is the product of one tile with one
/// block in one step.
struct Kernel {
  void (*multiply)(const int8_amx::Product&);
  Int8Lines::Layout layout;
  int64_t least_products;  ///< products that are worth another thread
  double of_weights;       ///< cost of loading a block's weights of a step
  double of_pixels;        ///< cost of loading a tile's pixels of a step from another core
};

Kernel kernel_of(Int8Instructions instructions) {
  if (instructions == Int8Instructions::amx_int8)
    return {int8_amx::multiply_by_amx, {int8_amx::pixels, false}, 256, 2, 14};
  return {int8_amx::multiply_by_vnni, {int8_amx::vnni_rows, true}, 64, 0.5, 1.75};
}

class Int8Layer : public PackedLayer {
 public:
  Int8Layer(const LayerParts& parts, const LayerCodes& codes, const Kernel& kernel)
      : kernel_(kernel),
        is_linear_(parts.convolution == nullptr),
        to_codes_(codes.output.has_value()),
        requantizer_(parts, codes),
        lines_(options_of(parts), images_of(parts), static_cast<uint8_t>(codes.input.zero_point),
               kernel.layout),
        steps_(lines_.steps()),
        step_quads_(lines_.step_quads()),
        out_channels_(parts.weight.size(0)),
        blocks_(at::divup(out_channels_, int8_amx::channels)) {
    pack(parts.weight);
  }

  at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const override {
    const auto images = ordered(input);
    if (addend.defined()) addend = ordered(addend);
    auto output = overwrite && to_codes_ ? addend : output_for(input);
    int8_amx::Product product = product_;
    static_cast<int8_amx::Requantization&>(product) = requantizer_(addend, output);
    compute(images, product);
    return output;
  }

 private:
  at::MemoryFormat order() const {
    return is_linear_ ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
  }
  at::Tensor ordered(const at::Tensor& images) const { return images.contiguous(order()); }

  at::Tensor output_for(const at::Tensor& input) const {
    std::vector<int64_t> sizes{input.size(0), out_channels_};
    if (!is_linear_) sizes.insert(sizes.end(), {lines_.rows(), lines_.columns()});
    return at::empty(sizes, input.options().dtype(to_codes_ ? at::kByte : at::kFloat), order());
  }

  /// Packs the weights as [blocks][steps][16 groups][16 channels][4 values].
  void pack(const at::Tensor& weight) {
    const auto runs =
        weight.view({out_channels_, -1, lines_.runs(), lines_.run() / lines_.channels()})
            .permute({0, 2, 3, 1})
            .reshape({out_channels_, lines_.runs(), lines_.run()});
    const int64_t values = at::divup(lines_.run(), int8_amx::values) * int8_amx::values;
    auto whole = at::zeros({blocks_ * int8_amx::channels, lines_.runs(), values}, at::kChar);
    whole.slice(0, 0, out_channels_).slice(2, 0, lines_.run()).copy_(runs);
    const auto packed = whole.view({blocks_, int8_amx::channels, std::ssize(steps_), -1, 4})
                            .permute({0, 2, 3, 1, 4})
                            .contiguous();
    weight_ = WeightPages::instance().take(packed.nbytes());
    std::copy_n(packed.const_data_ptr<int8_t>(), packed.numel(), weight_.get());
    product_.weights = weight_.get();
    product_.steps = steps_.data();
    product_.step_quads = step_quads_.data();
    product_.step_count = std::ssize(steps_);
    product_.pixel_stride = lines_.pixel_stride();
  }

  /// The cheapest cut that gives all threads work. Its cost is the time of the products and of
  /// loading weights and pixels, which other threads have written.
  TileCut cut_for(int64_t lines, int64_t pixels) const {
    const auto steps = std::ssize(steps_);
    const int64_t tiles = at::divup(pixels, kernel_.layout.most_rows);
    const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    const int64_t products = tiles * blocks_ * steps;
    const int64_t most = std::clamp<int64_t>(products / kernel_.least_products, 1, threads);
    const int64_t input_steps = at::divup(lines_.channels(), int8_amx::values);
    TileCut best{1, 1};
    double best_cost = std::numeric_limits<double>::max();
    for (int64_t block_parts = 1; block_parts <= std::min(most, blocks_); ++block_parts) {
      const int64_t line_parts = std::min(most / block_parts, lines);
      const auto blocks = static_cast<double>(at::divup(blocks_, block_parts));
      const auto parts = static_cast<double>(at::divup(tiles, line_parts));
      const double cost = static_cast<double>(steps) * blocks * (parts + kernel_.of_weights) +
                          static_cast<double>(input_steps) * kernel_.of_pixels * parts;
      if (cost < best_cost) best = {line_parts, block_parts}, best_cost = cost;
    }
    return best;
  }

  void compute(const at::Tensor& images, const int8_amx::Product& product) const {
    const TileRange lines{0, lines_.lines(images.size(0))}, blocks{0, blocks_};
    const auto cut = cut_for(lines.size(), images.size(0) * lines_.rows() * lines_.columns());
    const int64_t chunk = std::min(at::divup(lines.size(), cut.line_parts), lines_.most_lines());
    const auto copies = at::empty({cut.tasks(), lines_.bytes(chunk)}, at::kByte);
    at::parallel_for(0, cut.tasks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        auto of_task = product;
        const auto part = blocks.part(task % cut.block_parts, cut.block_parts);
        of_task.first_block = part.begin, of_task.end_block = part.end;
        compute_lines(images.const_data_ptr<uint8_t>(),
                      lines.part(task / cut.block_parts, cut.line_parts),
                      copies.data_ptr<uint8_t>() + task * copies.size(1), of_task);
      }
    });
  }

  void compute_lines(const uint8_t* images, const TileRange& lines, uint8_t* copies,
                     int8_amx::Product& product) const {
    Int8Lines::Tiles tiles;
    const int64_t chunks = at::divup(lines.size(), lines_.most_lines());
    for (int64_t i = 0; i < chunks; ++i) {
      const auto chunk = lines.part(i, chunks);
      lines_.take(images, chunk.begin, chunk.end, copies, tiles);
      product.tiles = tiles.all.data();
      product.tile_count = std::ssize(tiles.all);
      product.rows = tiles.rows;
      kernel_.multiply(product);
    }
  }

  Kernel kernel_;
  bool is_linear_, to_codes_;
  Requantizer requantizer_;
  Int8Lines lines_;
  std::vector<int64_t> steps_;
  std::vector<int8_t> step_quads_;
  int64_t out_channels_, blocks_;
  std::shared_ptr<int8_t> weight_;
  int8_amx::Product product_{};  ///< for all blocks; tiles and requantization are set by run()
};

/// Whether the sums, and the outputs in units of the output's scale, fit in 32 bits.
bool stays_in_32_bits(const LayerParts& parts, const LayerCodes& codes) {
  constexpr double most_code = 255, most = 1 << 30;
  const auto sums = parts.weight.flatten(1).to(at::kDouble).abs().sum(1) * most_code;
  auto outcomes = sums * codes.weight_scale.to(at::kDouble) * codes.input.scale;
  if (parts.bias.defined()) outcomes += parts.bias.to(at::kDouble).abs();
  const double outcome = outcomes.max().item<double>() + most_code * codes.addend.scale;
  const bool of_codes = !codes.output || outcome / codes.output->scale < most;
  return sums.max().item<double>() < most && of_codes;
}

/// Whether the images are single pixels that would be copied: each line is a tile of one pixel
/// then.
bool is_row_of_copies(const LayerParts& parts) {
  const auto images = images_of(parts);
  return images[2] * images[3] == 1 && images[1] % int8_amx::values != 0;
}

std::optional<Int8Instructions> best_int8_instructions() {
  if (tile_instructions() == tiles::Instructions::amx_bf16 && has_instructions("amx_int8"))
    return Int8Instructions::amx_int8;
  const bool none = permitted_tiles() == "none";
  for (const char* const name : {"avx512_f", "avx512_bw", "avx512_dq", "avx512_vl", "avx512_vnni"})
    if (none || !has_instructions(name)) return std::nullopt;
  return Int8Instructions::avx512_vnni;
}

}  // namespace

std::optional<Int8Instructions> int8_instructions() {
  static const auto best = best_int8_instructions();
  return best;
}

bool int8_layer_takes(const LayerParts& parts, const LayerCodes& codes) {
  const auto instructions = int8_instructions();
  if (!instructions || !stays_in_32_bits(parts, codes)) return false;
  if (instructions == Int8Instructions::avx512_vnni && is_row_of_copies(parts)) return false;
  if (parts.convolution == nullptr) return parts.input_shape.size() == 2;
  return parts.convolution->groups == 1 &&
         parts.convolution->dilation == std::array<int64_t, 2>{1, 1};
}

std::unique_ptr<PackedLayer> int8_layer(const LayerParts& parts, const LayerCodes& codes,
                                        Int8Instructions instructions) {
  return std::make_unique<Int8Layer>(parts, codes, kernel_of(instructions));
}

#else

std::optional<Int8Instructions> int8_instructions() { return std::nullopt; }

bool int8_layer_takes(const LayerParts&, const LayerCodes&) { return false; }

std::unique_ptr<PackedLayer> int8_layer(const LayerParts&, const LayerCodes&, Int8Instructions) {
  TORCH_CHECK(false, "int8_layer: for x86 processors");
}

#endif

std::shared_ptr<int8_t> WeightPages::take(size_t bytes) {
  constexpr size_t page_bytes = 4 << 20, alignment = 64;
  const auto page_of = [](size_t size) {
    return std::make_shared<c10::DataPtr>(CpuAllocator::instance().allocate(size));
  };
  const size_t taken = (bytes + alignment - 1) / alignment * alignment;
  if (taken >= page_bytes) {
    const auto own = page_of(taken);
    return {own, static_cast<int8_t*>(own->get())};
  }
  const std::lock_guard lock(mutex_);
  if (taken > room_) {
    page_ = page_of(page_bytes);
    next_ = static_cast<int8_t*>(page_->get());
    room_ = page_bytes;
  }
  room_ -= taken;
  return {page_, std::exchange(next_, next_ + taken)};
}

WeightPages& WeightPages::instance() {
  static WeightPages pages;
  return pages;
}

}  // namespace composer
