// Batch normalisation, the sum with a residual and the activation as one operator with its own
// backward pass: each reads and writes memory as few times as it can, and the value before the
// activation is kept nowhere.
#pragma once

#include "composer/network/norm_call.h"

namespace composer {

/// By one operator where there is one for the call, else step by step. A residual of another type
/// or layout is made like the input first. The operator's gradients have none of their own:
/// differentiating twice is an error.
at::Tensor batch_norm_with(const NormCall& call);

/// Why batch_norm_with() computes the call step by step, for people; empty where it does not.
std::string why_step_by_step(const NormCall& call);

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
