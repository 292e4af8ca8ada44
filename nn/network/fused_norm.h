// Batch normalisation, the sum with a residual and the activation as one operator with its own
// backward pass. Each pass reads and writes memory as few times as possible, and the value before
// the activation is not saved.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "nn/network/norm_call.h"

namespace torch::autograd {
struct Node;
}

namespace composer {

/// Uses one operator where there is one for the call, else computes step by step, a norm of the
/// residual and a pool by calls of their own. A residual of another type or layout is converted to
/// the input's first. The operator can be differentiated only once.
at::Tensor batch_norm_with(const NormCall& call);

/// Why batch_norm_with() computes the call step by step, for people; empty where it uses one
/// operator.
std::string why_step_by_step(const NormCall& call);

/// What batch norm on a GPU takes in besides the sum and the activation: the sum of the gradients
/// that its output gets as a residual and otherwise (join); bits for ReLU's derivative, which the
/// backward pass reads in place of the output (marks); the norm of a block's shortcut
/// (residual_norm); and a max pool after the activation (pool). For measurements, the environment
/// variable COMPOSER_UNFUSED switches off those that it names, with commas between.
enum class NormFusion { join, marks, residual_norm, pool };

/// Whether the fusion is on. UserError if COMPOSER_UNFUSED names something else.
bool is_on(NormFusion fusion);

/// ", without join, without pool": those that are off.
std::string fusions_off_text();

/// The fused norm that made a tensor, for operators that read the tensor again in the backward
/// pass: they need not save it, since the norm recomputes it, to the bit, from what it saves
/// itself.
class NormSource {
 public:
  /// The source of `output`, if a norm on the CPU with ReLU and without a residual made it while
  /// gradients were recorded; else nothing.
  static std::optional<NormSource> of(const at::Tensor& output);

  /// Recomputes the norm's output. Called in the backward pass, before the norm's own.
  at::Tensor output() const;

 private:
  explicit NormSource(std::shared_ptr<torch::autograd::Node> norm) : norm_(std::move(norm)) {}
  std::shared_ptr<torch::autograd::Node> norm_;
};

/// While one lives, its thread computes step by step, for comparisons.
class Unfused {
 public:
  Unfused() { ++count(); }
  ~Unfused() { --count(); }
  Unfused(const Unfused&) = delete;
  Unfused& operator=(const Unfused&) = delete;

  static bool here() { return count() > 0; }
  /// here(), called by a fused operator that would run otherwise.
  static bool keeps_back();
  /// How often keeps_back() was true on this thread.
  static int64_t kept_back();

 private:
  static int& count();
};

}  // namespace composer
