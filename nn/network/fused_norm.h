// Batch normalisation, the sum with a residual and the activation as one operator with its own
// backward pass: each reads and writes memory as few times as it can, and the value before the
// activation is kept nowhere.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "nn/network/norm_call.h"

namespace torch::autograd {
struct Node;
}

namespace composer {

/// By one operator where there is one for the call, else step by step. A residual of another type
/// or layout is made like the input first. The operator's gradients have none of their own:
/// differentiating twice is an error.
at::Tensor batch_norm_with(const NormCall& call);

/// Why batch_norm_with() computes the call step by step, for people; empty where it does not.
std::string why_step_by_step(const NormCall& call);

/// The fused norm whose output a tensor is, for operators that read it again in the backward pass:
/// what the norm keeps makes it once more, to the bit, so that they need not keep it.
class NormSource {
 public:
  /// Of a norm on the CPU with ReLU and without a residual, while gradients are followed; else
  /// there is none.
  static std::optional<NormSource> of(const at::Tensor& output);

  /// In the backward pass, before the norm's own.
  at::Tensor output() const;

 private:
  explicit NormSource(std::shared_ptr<torch::autograd::Node> norm) : norm_(std::move(norm)) {}
  std::shared_ptr<torch::autograd::Node> norm_;
};

/// While one lives, its thread computes step by step: for comparisons.
class Unfused {
 public:
  Unfused() { ++count(); }
  ~Unfused() { --count(); }
  Unfused(const Unfused&) = delete;
  Unfused& operator=(const Unfused&) = delete;

  static bool here() { return count() > 0; }
  /// here(), asked by an operator of composer's own that would run otherwise.
  static bool keeps_back();
  /// How often keeps_back() was true on this thread.
  static int64_t kept_back();

 private:
  static int& count();
};

}  // namespace composer
