#include "algorithms/parts/whole_batch.h"

#include <numeric>

#include "base/error.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"

namespace composer {
namespace {

struct Span {
  int64_t begin, length;
};

Span random_span(int64_t full, int64_t length, bool uniform_sampling, Random& random) {
  const int64_t half = length / 2;
  // Centres from 1 - half, whose span just reaches the first pixel, to full - 1 + half.
  const int64_t outside = uniform_sampling && half > 0 ? half - 1 : 0;
  const int64_t more = uniform_sampling && half > 0 ? 2 * half - 1 : 0;
  const int64_t centre = random.below(full + more) - outside;
  const int64_t begin = std::clamp<int64_t>(centre - half, 0, full);
  return {begin, std::clamp<int64_t>(centre + half, 0, full) - begin};
}

}  // namespace

ImageSize size_of(const at::Tensor& images) { return {images.size(2), images.size(3)}; }

at::Tensor part_of(const at::Tensor& images, const Box& box) {
  return images.narrow(2, box.top, box.height).narrow(3, box.left, box.width);
}

Box random_box(ImageSize image, ImageSize size, bool uniform_sampling, Random& random) {
  const auto rows = random_span(image.height, size.height, uniform_sampling, random);
  const auto columns = random_span(image.width, size.width, uniform_sampling, random);
  return {rows.begin, columns.begin, rows.length, columns.length};
}

Box box_within(ImageSize image, ImageSize size, Random& random) {
  const int64_t top = random.below(image.height - size.height + 1);
  return {top, random.below(image.width - size.width + 1), size.height, size.width};
}

at::Tensor random_partners(int64_t n, Random& random, at::Device device) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t left = n; left > 1; --left)
    std::swap(order[static_cast<size_t>(left - 1)], order[static_cast<size_t>(random.below(left))]);
  return copy_to(device, at::tensor(order));
}

at::Tensor partners_within(std::string_view method, const State& state) {
  Random random(state.seed, std::string(method) + ".partners",
                static_cast<uint64_t>(state.first_sample), static_cast<uint64_t>(state.time.batch));
  return random_partners(state.batch.samples(), random, state.batch.input.device());
}

at::Tensor pick(const at::Tensor& images, int64_t dim, const at::Tensor& index) {
  if (images.suggest_memory_format() != at::MemoryFormat::ChannelsLast)
    return images.index_select(dim, index);
  static constexpr std::array<int64_t, 4> permuted{0, 3, 1, 2};
  return images.permute({0, 2, 3, 1})
      .index_select(permuted[static_cast<size_t>(dim)], index)
      .permute({0, 3, 1, 2});
}

Target mix_labels(const Target& target, const at::Tensor& partners, const at::Tensor& weight,
                  std::string_view method) {
  if (target.values.defined()) {
    Target mixed = target;
    mixed.values = target.values.lerp(target.values.index_select(0, partners), weight.unsqueeze(1));
    return mixed;
  }
  if (target.other_classes.defined())
    throw UserError("algorithms." + std::string(method) +
                    ": the targets have two classes already, from another algorithm that mixes "
                    "images, and there is no room for a third; keep one of them (mixup, cutmix)");
  return {target.classes, target.classes.index_select(0, partners), weight, target.smoothing};
}

}  // namespace composer
