// Functions compiled for several instruction sets.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define COMPOSER_X86
#endif

// Before a function, the macros have the compiler write it for each of these instruction sets; the
// program chooses one when it starts. Not with ThreadSanitizer: the choice runs before it has
// started, and would crash.
#if defined(COMPOSER_X86) && !defined(__SANITIZE_THREAD__)
#define COMPOSER_CLONES __attribute__((target_clones("avx2", "default")))
#ifdef COMPOSER_NO_AVX512
#define COMPOSER_CLONES_AVX512 COMPOSER_CLONES
#else
#define COMPOSER_CLONES_AVX512 \
  __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#endif
#else
#define COMPOSER_CLONES
#define COMPOSER_CLONES_AVX512
#endif
