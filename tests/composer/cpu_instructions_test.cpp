#include "composer/cpu_instructions.h"

#include <ATen/cpu/Utils.h>

#include <catch2/catch.hpp>

#include "composer/simd.h"

using composer::has_instructions;

TEST_CASE("the processor has the instructions that the compiler finds", "[cpu_instructions]") {
#ifdef COMPOSER_X86
  CHECK(has_instructions("avx2") == (__builtin_cpu_supports("avx2") != 0));
  CHECK(has_instructions("avx512_bw") == (__builtin_cpu_supports("avx512bw") != 0));
  CHECK(has_instructions("avx512_vnni") == (__builtin_cpu_supports("avx512vnni") != 0));
#endif
  CHECK_FALSE(has_instructions("no_such"));
  CHECK_FALSE(has_instructions("l1d_cache_size"));
}

#ifdef COMPOSER_X86
TEST_CASE("LibTorch knows the names that are asked for", "[cpu_instructions]") {
  const auto known = at::cpu::get_cpu_capabilities();
  for (const auto* name :
       {"amx_bf16", "amx_tile", "avx512_bf16", "avx512_bw", "avx512_vl", "avx_ne_convert"})
    CHECK(known.contains(name));
}
#endif
