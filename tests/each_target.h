// The vector instructions that kernels are written for, one set after another.
#pragma once

#include <hwy/targets.h>

#include <vector>

namespace composer::test {

/// Those of Highway's targets that kernels are compiled for and this CPU has, the best first; the
/// last one is plain code.
inline std::vector<int64_t> targets() {
  constexpr int64_t left_out = HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128;
  std::vector<int64_t> all;
  for (int64_t left = hwy::SupportedTargets() & ~left_out; left != 0; left &= left - 1)
    all.push_back(left & -left);
  return all;
}

/// While it lives, kernels have no vector instructions but these.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) : before_(hwy::SupportedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
  }
  ~OnlyTarget() { hwy::SetSupportedTargetsForTest(before_); }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;

 private:
  int64_t before_;
};

}  // namespace composer::test
