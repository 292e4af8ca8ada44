#include "nn/device/cpu_instructions.h"

#include <ATen/cpu/Utils.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>

#include "base/simd.h"

namespace composer::cpu_instructions_test {

namespace {

/// While it lives, oneDNN is permitted those instructions; null: all.
class Permitted {
 public:
  explicit Permitted(const char* most) {
    if (const char* const before = std::getenv(variable)) before_ = before;
    set(most);
  }
  ~Permitted() { set(before_ ? before_->c_str() : nullptr); }
  Permitted(const Permitted&) = delete;
  Permitted& operator=(const Permitted&) = delete;

 private:
  static constexpr const char* variable = "ONEDNN_MAX_CPU_ISA";

  static void set(const char* most) {
    if (most == nullptr)
      ::unsetenv(variable);
    else
      ::setenv(variable, most, 1);
  }

  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("the processor has the instructions that the compiler finds", "[cpu_instructions]") {
  const Permitted all(nullptr);
#ifdef COMPOSER_X86
  CHECK(has_instructions("avx2") == (__builtin_cpu_supports("avx2") != 0));
  CHECK(has_instructions("avx512_bw") == (__builtin_cpu_supports("avx512bw") != 0));
  CHECK(has_instructions("avx512_vnni") == (__builtin_cpu_supports("avx512vnni") != 0));
#endif
  CHECK_FALSE(has_instructions("no_such"));
  CHECK_FALSE(has_instructions("l1d_cache_size"));
}

TEST_CASE("the processor has no instructions that oneDNN is not permitted", "[cpu_instructions]") {
  const Permitted all(nullptr);
  const bool avx2 = has_instructions("avx2"), avx512 = has_instructions("avx512_f");
  for (const std::string most : {"SSE41", "avx", "AVX2", "AVX2_VNNI", "AVX512_CORE"}) {
    CAPTURE(most);
    const Permitted some(most.c_str());
    CHECK(has_instructions("avx2") == (avx2 && most != "SSE41" && most != "avx"));
    CHECK(has_instructions("avx512_f") == (avx512 && most == "AVX512_CORE"));
    for (const char* const name : {"avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"})
      CHECK_FALSE(has_instructions(name));
  }
  const Permitted unknown("ALL");
  CHECK(has_instructions("avx2") == avx2);
}

#ifdef COMPOSER_X86
TEST_CASE("LibTorch knows the names that are asked for", "[cpu_instructions]") {
  const auto known = at::cpu::get_cpu_capabilities();
  for (const auto* name :
       {"amx_bf16", "amx_tile", "avx512_bf16", "avx512_bw", "avx512_vl", "avx_ne_convert"})
    CHECK(known.contains(name));
}
#endif

}  // namespace composer::cpu_instructions_test
