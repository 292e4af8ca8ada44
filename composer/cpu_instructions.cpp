#include "composer/cpu_instructions.h"

#include <ATen/cpu/Utils.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

namespace composer {
namespace {

/// By what oneDNN may be held to: how the names of instructions begin that it does not use then.
const std::map<std::string_view, std::vector<std::string_view>> beyond{
    {"SSE41", {"avx", "fma", "amx"}},
    {"AVX", {"avx2", "avx512", "avx_", "fma", "amx"}},
    {"AVX2", {"avx512", "avx_", "amx"}},
    {"AVX2_VNNI", {"avx512", "avx_ne", "amx"}},
    {"AVX2_VNNI_2", {"avx512", "amx"}},
    {"AVX512_CORE", {"avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_", "amx"}},
    {"AVX512_CORE_VNNI", {"avx512_bf16", "avx512_fp16", "amx"}},
    {"AVX512_CORE_BF16", {"avx512_fp16", "amx"}},
    {"AVX512_CORE_FP16", {"amx"}},
};

bool permitted(std::string_view name) {
  for (const char* const variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char* const most = std::getenv(variable)) {
      const auto found = beyond.find(most);
      return found == beyond.end() ||
             std::ranges::none_of(found->second,
                                  [&](std::string_view word) { return name.starts_with(word); });
    }
  return true;
}

}  // namespace

bool has_instructions(const std::string& name) {
  static const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto found = capabilities.find(name);
  return found != capabilities.end() && found->second.isBool() && found->second.toBool() &&
         permitted(name);
}

}  // namespace composer
