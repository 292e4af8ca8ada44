// Updates of float32 weights by SGD, Adam or RMSprop in one pass over memory, which is what bounds
// them on a CPU. Every processor gets the same bits, those of averages apart.
#pragma once

#include <cstdint>

namespace composer {

/// d = g + decay * w;  m = momentum * m + gradient_share * d, without momentum m = d;
/// w = shrink * w - lr * m, with nesterov lr * (d + momentum * m). State: m, where there is
/// momentum.
struct SgdRule {
  float lr = 0, decay = 0, shrink = 1, momentum = 0, gradient_share = 1;
  bool nesterov = false;
};

/// d = g + decay * w;  m += mean_share * (d - m);  v = beta2 * v + square_share * d * d;
/// w = shrink * w - step_size * m / (sqrt(v) / root + eps), with amsgrad the largest v so far in
/// place of v. State: m, v, and with amsgrad the largest v.
struct AdamRule {
  float decay = 0, shrink = 1, mean_share = 0, beta2 = 0, square_share = 0, step_size = 0, root = 1,
        eps = 0;
  bool amsgrad = false;
};

/// d = g + decay * w;  v = alpha * v + square_share * d * d;  s = d / (sqrt(v) + eps), with
/// centered sqrt(v - a * a), where a += square_share * (d - a);  m = momentum * m + s, without
/// momentum m = s;  w -= lr * m. State: v, with centered a, with momentum m.
struct RmspropRule {
  float lr = 0, decay = 0, alpha = 0, square_share = 0, eps = 0, momentum = 0;
  bool centered = false;
};

/// What an update works on: arrays of `size` numbers that run in parallel and lie apart.
struct UpdateSpan {
  int64_t size = 0;
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* state[3] = {};         ///< in the order of the rule
  uint16_t* rounded = nullptr;  ///< takes the new weights in bfloat16, halves to even; null: none
  float* average = nullptr;     ///< moves by average_share towards the new weights; null: none
  float average_share = 0;
};

void update(const SgdRule& rule, const UpdateSpan& span);
void update(const AdamRule& rule, const UpdateSpan& span);
void update(const RmspropRule& rule, const UpdateSpan& span);

}  // namespace composer
