// What a device's work is for, by its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/trace_event.h"

namespace composer {

enum class KernelType : uint8_t { computation, communication, memory, other };

std::string_view name(KernelType type);

/// By the patterns of HTA (hta/common/types.py), or those of its release 0.5.0
/// (hta/utils/utils.py).
KernelType kernel_type(std::string_view kernel, bool as_hta);

/// The type of each of a trace's names.
std::vector<KernelType> kernel_types(const NameTable& names, bool as_hta);

/// "Memset", "Memcpy HtoD" and its kin, or "Memcpy Unknown".
std::string copy_kind(std::string_view kernel);

/// Without template arguments, arguments and what stands in front of the name; copies stay as they
/// are.
std::string short_name(std::string_view name);

}  // namespace composer
