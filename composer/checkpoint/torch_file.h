// State dicts as PyTorch saves them (torch.save since 1.6: a zip archive with a pickle and the
// tensors' bytes).
#pragma once

#include <string_view>

#include "composer/checkpoint/safetensors.h"

namespace composer {

/// The tensors of a .pth or .pt file by name, on the CPU, row-major, in their own memory. The file
/// has a state dict, or a dict with one under a usual key ("state_dict", "model",
/// "model_state_dict", "module", "state", "net") or under a key that names_average(), which is
/// preferred; if there are several, the log tells which one is taken. Other objects are skipped.
/// The pickle is read by an interpreter of the few instructions that tensors need: nothing is ever
/// executed. UserError names the file and the reason: written before PyTorch 1.6, cut off, a whole
/// model or another object instead of a state dict, no state dict under a usual key (lists the
/// keys), tensors outside the file.
TensorMap read_torch_file(const std::filesystem::path& path);

/// Whether a word of a key, or of a prefix of names, denotes averaged weights: "model_ema",
/// "state_dict_ema", "ema_model.module.", "swa_model".
bool names_average(std::string_view name);

/// Writes a state dict as torch.save does, for torch.load, also with weights_only: `tensors` from
/// any device, row-major. Throws RunError when the file cannot be written, UserError for a type
/// that has no class there (unsigned integers of 16 bits and more, floats of 8 bits).
void write_torch_file(const std::filesystem::path& path, const TensorMap& tensors);

}  // namespace composer
