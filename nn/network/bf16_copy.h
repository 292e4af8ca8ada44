// Weights in bfloat16, as autocast on a CPU computes with them, made once for each value of a
// weight and not in each forward pass.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace composer {

/// A copy of one weight. It is good for one version of one tensor: what writes to the weight, other
/// than through Tensor::data() or to its bare memory, counts the version up.
class Bf16Copy {
 public:
  Bf16Copy() = default;
  Bf16Copy(const Bf16Copy&) = delete;
  Bf16Copy& operator=(const Bf16Copy&) = delete;

  /// `weight` [any shape, float32, on the CPU] in bfloat16 with the same strides; converted only
  /// where the last result is not good any more. The memory of the result is not written to while
  /// anyone holds it. May be called by several threads.
  at::Tensor of(const at::Tensor& weight);

  /// Gives the memory of the copy up. Who holds it must have it back before it is read.
  void release();
  /// Gives a copy that is held its memory back, filled with `weight`.
  void restore(const at::Tensor& weight);

  /// For what writes `weight`: memory for the rounded values, in the order of the weight's. Null
  /// where of() was never asked for such a weight, or its result is still held.
  at::BFloat16* room_for(const at::Tensor& weight);
  /// The room has been filled with `weight` as it is now.
  void filled_for(const at::Tensor& weight);

 private:
  bool is_good_for(const at::Tensor& weight) const;
  bool is_released() const;
  /// Whether copy_ can take `weight` in.
  bool has_room_for(const at::Tensor& weight) const;

  std::mutex mutex_;  ///< of of()
  at::Tensor copy_;   ///< undefined before the first use
  // Of the weight that it is good for. The storage's address stays its own while it is held.
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage_;
  const void* data_ = nullptr;
  uint32_t version_ = 0;
};

/// Whether an operation that autocast knows would now convert `weight` to bfloat16 on the CPU.
bool is_rounded_by_autocast(const at::Tensor& weight);

/// `weight` [any shape, float32, on the CPU] in bfloat16, without gradients: its copy, where the
/// weight stays for more than one pass.
at::Tensor rounded_weight(const at::Tensor& weight, Bf16Copy& shadow);

/// What an operation of a layer computes with: `weight`, or where autocast would convert it to
/// bfloat16 on the CPU, its copy, whose gradient becomes one of the weight in float32 with the
/// weight's strides. weight: may be undefined.
at::Tensor autocast_weight(const at::Tensor& weight, const std::shared_ptr<Bf16Copy>& shadow);

/// A layer's weight and what keeps its copy.
struct ShadowedWeight {
  at::Tensor weight;  ///< may be undefined
  std::shared_ptr<Bf16Copy> shadow;
};

/// A layer that computes with autocast_weight(). Copies of it may share weights and shadows.
class HasShadows {
 public:
  virtual ~HasShadows() = default;
  virtual std::vector<ShadowedWeight> shadowed_weights() const = 0;
};

}  // namespace composer
