#include "analysis/trace/kernel_type.h"

#include <algorithm>
#include <iterator>

namespace composer {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](auto each) { return text.starts_with(each); });
}

bool moves_memory(std::string_view kernel) {
  return starts_with_any(kernel, {"Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"});
}

KernelType type_of_release(std::string_view kernel) {
  if (kernel.starts_with("nccl") && contains(kernel, "Kernel")) return KernelType::communication;
  if (starts_with_any(kernel, {"Memcpy", "Memset", "dma"})) return KernelType::memory;
  return contains(kernel, "Memcpy") || contains(kernel, "Sync") ? KernelType::other
                                                                : KernelType::computation;
}

bool launches_by_cuda(std::string_view kernel) {
  return kernel.starts_with("cuda") && contains(kernel, "LaunchKernel");
}

}  // namespace

std::string_view name(KernelType type) {
  constexpr std::string_view names[] = {"computation", "communication", "memory", "other"};
  return names[static_cast<size_t>(type)];
}

KernelType kernel_type(std::string_view kernel, bool as_hta) {
  if (as_hta) return type_of_release(kernel);
  if (starts_with_any(kernel, {"nccl", "hip", "hccl"}) || contains(kernel, "ncclKernel"))
    return KernelType::communication;
  if (moves_memory(kernel)) return KernelType::memory;
  const bool other =
      contains(kernel, "Memcpy") || contains(kernel, "Memset") || contains(kernel, "dma") ||
      contains(kernel, "Sync") || launches_by_cuda(kernel) ||
      starts_with_any(kernel, {"Stream Wait Event", "runFunction", "job_exe", "packet", "pe_exe",
                               "cpum_exe_subgraph", "collective_subgraph_execution"});
  return other ? KernelType::other : KernelType::computation;
}

std::vector<KernelType> kernel_types(const NameTable& names, bool as_hta) {
  std::vector<KernelType> types(names.size());
  for (uint32_t i = 0; i < names.size(); ++i) types[i] = kernel_type(names[i], as_hta);
  return types;
}

std::string copy_kind(std::string_view kernel) {
  if (kernel.starts_with("Memset")) return "Memset";
  constexpr size_t kind = std::string_view("Memcpy DtoH").size();
  return kernel.starts_with("Memcpy") ? std::string(kernel.substr(0, kind)) : "Memcpy Unknown";
}

std::string short_name(std::string_view name) {
  if (moves_memory(name) || name.find_first_of("<(") == std::string_view::npos)
    return std::string(name);
  std::string text;
  const auto close = [&](char opening) {
    const size_t at = text.rfind(opening);
    text.resize(at == std::string::npos ? 0 : at);
  };
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i, 2) == "->")
      ++i;
    else if (name[i] == '>')
      close('<');
    else if (name[i] == ')')
      close('(');
    else
      text += name[i];
  }
  return text.substr(text.rfind(' ') + 1);
}

}  // namespace composer
