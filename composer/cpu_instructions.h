// What instructions this processor has.
#pragma once

#include <string>

namespace composer {

/// Whether the processor has the instructions that LibTorch knows by that name ("avx512_bf16",
/// "amx_int8"), and ONEDNN_MAX_CPU_ISA in the environment permits them. False for a name that
/// LibTorch does not know on this kind of processor.
bool has_instructions(const std::string& name);

}  // namespace composer
