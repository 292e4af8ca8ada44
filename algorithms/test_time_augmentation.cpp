#include "algorithms/test_time_augmentation.h"

#include "algorithms/parts/whole_batch.h"
#include "base/error.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"

namespace composer {
namespace {

constexpr int64_t width_dim = 3;

/// The mean of `logits` of the images and those of their mirror images.
at::Tensor with_mirror(const Classify& classify, const at::Tensor& images,
                       const at::Tensor& logits) {
  return (logits.to(at::kFloat) + classify(images.flip(width_dim)).to(at::kFloat)) * 0.5;
}

}  // namespace

at::Tensor mean_over_views(const Classify& classify, const at::Tensor& images,
                           const at::Tensor& logits, int64_t level, int64_t shift) {
  const auto plain = with_mirror(classify, images, logits);
  if (level < 2) return plain;
  const auto [height, width] = size_of(images);
  if (std::min(height, width) <= shift)
    throw UserError(
        "algorithms.test_time_augmentation.shift: must be less than the side of an "
        "image, not " +
        std::to_string(shift) + " where images have " + std::to_string(height) + " x " +
        std::to_string(width) + " pixels");
  const auto padded = at::reflection_pad2d(images, {shift, shift, shift, shift});
  at::Tensor shifted;
  for (const int64_t offset : {int64_t{0}, 2 * shift}) {
    const auto window =
        part_of(padded, {offset, offset, height, width}).contiguous(images.suggest_memory_format());
    const auto mean = with_mirror(classify, window, classify(window));
    shifted = shifted.defined() ? (shifted + mean) * 0.5 : mean;
  }
  return (plain + shifted) * 0.5;
}

at::Tensor least_confident(const at::Tensor& logits, double share) {
  const auto count =
      static_cast<int64_t>(std::ceil(share * static_cast<double>(logits.size(0)) - 1e-9));
  const auto confidence = std::get<0>(logits.to(at::kFloat).softmax(1).max(1));
  return std::get<1>(confidence.topk(count, 0, /*largest=*/false));
}

void TestTimeAugmentation::add_views(State& state) const {
  const Classify classify = [&](const at::Tensor& images) {
    return state.network().forward(images);
  };
  const auto& images = state.batch.input;
  if (params_.share == 1) {
    state.outputs = mean_over_views(classify, images, state.outputs, params_.level, params_.shift);
    return;
  }
  const auto unsure = least_confident(state.outputs, params_.share);
  if (unsure.numel() == 0) return;
  state.ranks.of_rows().broadcast(unsure);  // confidences may differ in their last bits
  const auto better =
      mean_over_views(classify, pick(images, 0, unsure), state.outputs.index_select(0, unsure),
                      params_.level, params_.shift);
  const AnyOrder each_row_once;
  state.outputs = state.outputs.to(at::kFloat).index_copy(0, unsure, better);
}

}  // namespace composer
