#include "data/pixels/simd.h"

#include <algorithm>
#include <atomic>

namespace composer {
namespace {

Simd detect() {
#ifdef COMPOSER_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni")) {
    return Simd::avx512;
  }
  if (__builtin_cpu_supports("avx2")) return Simd::avx2;
#endif
  return Simd::scalar;
}

std::atomic<Simd> limit{Simd::avx512};

}  // namespace

Simd simd() {
  static const Simd has = detect();
  return std::min(has, limit.load(std::memory_order_relaxed));
}

void limit_simd(Simd most) { limit.store(most, std::memory_order_relaxed); }

}  // namespace composer
