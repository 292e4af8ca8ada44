#include "algorithms/augmentation/augment_batch.h"

#include <ATen/Parallel.h>

#include <sstream>
#include <vector>

#include "algorithms/augmentation/batch_op.h"
#include "base/error.h"

namespace composer {
namespace {

void check_images(const at::Tensor& images) {
  if (images.scalar_type() == at::kByte && images.dim() == 4 &&
      (images.size(3) == 1 || images.size(3) == 3))
    return;
  std::ostringstream message;
  message << "augment_batch takes uint8 images [N, H, W, 1 or 3], not " << images.scalar_type()
          << ' ' << images.sizes();
  throw RunError(message.str());
}

at::Tensor apply_on_device(const at::Tensor& images, const std::vector<Steps>& draws) {
  return apply_batched(images, draws);
}

at::Tensor apply_on_device(const at::Tensor& images, const std::vector<AugMixDraw>& draws) {
  return augmix_batched(images, draws);
}

template <class Draw>
at::Tensor augment(const at::Tensor& images, const std::function<Draw(int64_t)>& draw) {
  check_images(images);
  const int64_t n = images.size(0);
  if (!images.is_cpu()) {
    std::vector<Draw> draws;
    for (int64_t i = 0; i < n; ++i) draws.push_back(draw(i));
    return apply_on_device(images, draws);
  }
  const auto changed = images.clone(at::MemoryFormat::Contiguous);
  uint8_t* const pixels = changed.mutable_data_ptr<uint8_t>();
  const int64_t height = images.size(1), width = images.size(2), channels = images.size(3);
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      apply_draw(draw(i), {pixels + i * height * width * channels, height, width, channels});
  });
  return changed;
}

}  // namespace

at::Tensor augment_batch(const at::Tensor& images, const std::function<Steps(int64_t)>& draw) {
  return augment(images, draw);
}

at::Tensor augment_batch(const at::Tensor& images, const std::function<AugMixDraw(int64_t)>& draw) {
  return augment(images, draw);
}

}  // namespace composer
