#include "nn/device/cpu_instructions.h"

#include <ATen/cpu/Utils.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

namespace composer {
namespace {

/// For each limit: the beginnings of the names of instructions that oneDNN does not use under it.
const std::map<std::string_view, std::vector<std::string_view>> beyond{
    {"sse41", {"avx", "fma", "amx"}},
    {"avx", {"avx2", "avx512", "avx_", "fma", "amx"}},
    {"avx2", {"avx512", "avx_", "amx"}},
    {"avx2_vnni", {"avx512", "avx_ne", "amx"}},
    {"avx2_vnni_2", {"avx512", "amx"}},
    {"avx512_core", {"avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_", "amx"}},
    {"avx512_core_vnni", {"avx512_bf16", "avx512_fp16", "amx"}},
    {"avx512_core_bf16", {"avx512_fp16", "amx"}},
    {"avx512_core_fp16", {"amx"}},
    {"avx10_1_512", {"amx"}},
    {"avx10_2_512", {"amx"}},
};

bool permitted(std::string_view name) {
  std::string most = instruction_limit();
  most.erase(0, most.find('=') + 1);
  for (char& letter : most) letter = static_cast<char>(std::tolower(letter));
  const auto found = beyond.find(most);
  return found == beyond.end() || std::ranges::none_of(found->second, [&](std::string_view word) {
           return name.starts_with(word);
         });
}

}  // namespace

std::string instruction_limit() {
  for (const char* const variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char* const most = std::getenv(variable); most != nullptr && *most != '\0')
      return std::string(variable) + "=" + most;
  return {};
}

bool has_instructions(const std::string& name) {
  static const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto found = capabilities.find(name);
  return found != capabilities.end() && found->second.isBool() && found->second.toBool() &&
         permitted(name);
}

}  // namespace composer
