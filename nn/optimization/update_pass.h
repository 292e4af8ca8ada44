// Updates of many weights in one pass over memory, which bounds their speed on a CPU: rules for
// float32 weights of SGD, Adam and RMSprop. Every processor gets the same bits, except for
// averages.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace composer {

/// d = g + decay * w;  m = momentum * m + gradient_share * d, without momentum m = d; w = shrink *
/// w - lr * m, with nesterov lr * (d + momentum * m). State: m, with momentum.
struct SgdRule {
  float lr = 0, decay = 0, shrink = 1, momentum = 0, gradient_share = 1;
  bool nesterov = false;
};

/// d = g + decay * w;  m += mean_share * (d - m);  v = beta2 * v + square_share * d * d; w = shrink
/// * w - step_size * m / (sqrt(v) / root + eps), with amsgrad the largest v so far instead of v.
/// State: m, v, and with amsgrad the largest v.
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

/// The memory of an update: arrays of `size` numbers that run in parallel and do not overlap.
struct UpdateSpan {
  int64_t size = 0;
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* state[3] = {};         ///< state tensors, in the order of the rule
  uint16_t* rounded = nullptr;  ///< gets the new weights as bfloat16, ties to even; may be null
  float* average = nullptr;     ///< moves by average_share to the new weights; may be null
  float average_share = 0;
};

void update(const SgdRule& rule, const UpdateSpan& span);
void update(const AdamRule& rule, const UpdateSpan& span);
void update(const RmspropRule& rule, const UpdateSpan& span);

using UpdateRule = std::variant<SgdRule, AdamRule, RmspropRule>;

/// Threads take chunks from one list, whatever the sizes of the weights. The list is remade only
/// when the sizes change.
class UpdatePass {
 public:
  void add(const UpdateRule& rule, const UpdateSpan& weight) { updates_.push_back({rule, weight}); }

  /// Makes the updates added since the last run.
  void run();
  /// Drops the updates that were added.
  void clear() { updates_.clear(); }

 private:
  struct Update {
    UpdateRule rule;
    UpdateSpan span;
  };
  struct Chunk {
    size_t update;
    int64_t begin, size;
  };

  void cut();

  std::vector<Update> updates_;
  std::vector<int64_t> sizes_;  ///< the sizes from which chunks_ was made
  std::vector<Chunk> chunks_;
};

}  // namespace composer
