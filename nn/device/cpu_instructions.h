// The instructions that this processor has.
#pragma once

#include <string>

namespace composer {

/// Whether the processor has the instructions that LibTorch knows by that name ("avx512_bf16",
/// "amx_int8"), and instruction_limit() permits them. False for a name that LibTorch does not know
/// on this kind of processor.
bool has_instructions(const std::string& name);

/// The environment's limit on the instructions that oneDNN, and so composer, uses:
/// "ONEDNN_MAX_CPU_ISA=AVX2", or the same with DNNL_MAX_CPU_ISA. Empty without a limit.
std::string instruction_limit();

}  // namespace composer
