// Weights in bfloat16 for autocast on a CPU, converted once for each value of a weight instead of
// in each forward pass.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace composer {

/// The bfloat16 copy of one weight. It is valid for one version of one tensor: every write to the
/// weight, except through Tensor::data() or its raw memory, increments the version.
class Bf16Copy {
 public:
  Bf16Copy() = default;
  Bf16Copy(const Bf16Copy&) = delete;
  Bf16Copy& operator=(const Bf16Copy&) = delete;

  /// `weight` [any shape, float32, on the CPU] in bfloat16 with the same strides; converts only
  /// where the copy is not valid. The result's memory is not overwritten while anyone holds the
  /// result. Thread-safe.
  at::Tensor of(const at::Tensor& weight);

  /// Frees the copy's memory. A holder of the copy must call restore() before it reads it.
  void release();
  /// Allocates the memory of a copy that is still held again, filled with `weight`.
  void restore(const at::Tensor& weight);

  /// For code that writes `weight`: memory for the rounded values, in the weight's memory order.
  /// Null where of() was never called for such a weight, or its result is still held.
  at::BFloat16* room_for(const at::Tensor& weight);
  /// Marks the copy as valid: room_for()'s memory was filled with `weight` as it is now.
  void filled_for(const at::Tensor& weight);

 private:
  bool is_good_for(const at::Tensor& weight) const;
  bool is_released() const;
  /// Whether copy_ may be overwritten with `weight`.
  bool has_room_for(const at::Tensor& weight) const;

  std::mutex mutex_;  ///< guards of(), release() and restore()
  at::Tensor copy_;   ///< undefined before the first use
  // Storage, address and version of the weight that the copy is valid for. A weak pointer keeps the
  // storage's address from being reused.
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage_;
  const void* data_ = nullptr;
  uint32_t version_ = 0;
};

/// Whether autocast on the CPU would convert `weight` to bfloat16 for the next operation.
bool is_rounded_by_autocast(const at::Tensor& weight);

/// `weight` [any shape, float32, on the CPU] in bfloat16, without gradients: its copy, where the
/// weight outlives the pass.
at::Tensor rounded_weight(const at::Tensor& weight, Bf16Copy& copy);

/// The weight for an operation: `weight` itself, or, where autocast on the CPU would convert it to
/// bfloat16, its copy. The copy's gradient becomes a float32 gradient of the weight with the
/// weight's strides. weight: may be undefined.
at::Tensor autocast_weight(const at::Tensor& weight, const std::shared_ptr<Bf16Copy>& copy);

/// A weight and its copy.
struct CopiedWeight {
  at::Tensor weight;  ///< may be undefined
  std::shared_ptr<Bf16Copy> copy;
};

/// The weights of a layer that computes with autocast_weight(). A copy of the layer shares the
/// weights and their bfloat16 copies.
class Bf16Weights {
 public:
  virtual ~Bf16Weights() = default;
  std::vector<CopiedWeight> copied_weights() const {
    return {{weight, weight_copy_}, {bias, bias_copy_}};
  }

  at::Tensor weight, bias;

 protected:
  std::shared_ptr<Bf16Copy> weight_copy_ = std::make_shared<Bf16Copy>();
  std::shared_ptr<Bf16Copy> bias_copy_ = std::make_shared<Bf16Copy>();
};

}  // namespace composer
