// What instructions this processor has.
#pragma once

#include <string>

namespace composer {

/// Whether the processor has the instructions that LibTorch knows by that name: "avx512_bf16",
/// "amx_int8". False for a name that it does not know on this kind of processor.
bool has_instructions(const std::string& name);

}  // namespace composer
