// Which of the CPU's vector instructions the image kernels use.
#pragma once

#include "composer/simd.h"

namespace composer {

enum class Simd {
  scalar,
  avx2,
  avx512,  ///< with the extensions BW, VL, VBMI and VNNI
};

/// The most that this CPU has, or less after limit_simd.
Simd simd();

/// For tests and measurements: use no more than this.
void limit_simd(Simd most);

}  // namespace composer
