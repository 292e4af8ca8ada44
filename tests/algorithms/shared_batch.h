// A batch that two ranks share.
#pragma once

#include <ATen/ATen.h>

#include "nn/network/batch.h"

namespace composer::test {

inline constexpr int64_t samples = 11, first_share = 6;

/// Of two ranks the second has what comes after first_share.
struct Whole {
  Whole() {
    at::manual_seed(4);
    images = at::randn({samples, 3, 32, 32});
    bytes = at::randint(256, {samples, 32, 32, 3}, at::kByte);
    classes = at::arange(samples) % 5;
  }
  Batch part(int64_t begin, int64_t end) const {
    Target target;
    target.classes = classes.slice(0, begin, end);
    return {images.slice(0, begin, end).clone(), target};
  }
  at::Tensor images, bytes, classes;
};

}  // namespace composer::test
