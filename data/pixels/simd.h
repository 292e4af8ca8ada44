// Which of the CPU's vector instructions the image kernels use.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define COMPOSER_X86
#endif
// The choice between clones runs before ThreadSanitizer has started, which would crash.
#if defined(COMPOSER_X86) && !defined(__SANITIZE_THREAD__)
#define COMPOSER_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define COMPOSER_CLONES
#endif

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
