// The vector instructions that kernels are written for, one set after another.
#pragma once

#include <hwy/targets.h>

#include <vector>

namespace composer::test {

/// Those of Highway's targets that this CPU has, the best first; the last one is plain code.
inline std::vector<int64_t> targets() {
  std::vector<int64_t> all;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1)
    all.push_back(left & -left);
  return all;
}

/// While it lives, kernels have no vector instructions but these.
struct OnlyTarget {
  explicit OnlyTarget(int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~OnlyTarget() { hwy::SetSupportedTargetsForTest(0); }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;
};

}  // namespace composer::test
