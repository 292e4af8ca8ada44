// Weights from files into a model.
#pragma once

#include <filesystem>

#include "composer/network/model.h"
#include "composer/storage/safetensors.h"

namespace composer {

/// All parameters and buffers by name, as they are (not copied): what a checkpoint stores of a
/// model.
TensorMap model_tensors(const torch::nn::Module& model);

/// Tensors from a .safetensors file, a PyTorch file (.pth, .pt), or a checkpoint folder. Prefixes
/// that wrappers put before every name ("module.", "_orig_mod.") are taken off. UserError as by the
/// readers.
TensorMap read_weights(const std::filesystem::path& path);

/// Copies `tensors` into the parameters and buffers of the same names, converting type and device.
/// Throws UserError listing missing, unexpected and mis-shaped names, before anything is changed; a
/// missing num_batches_tracked is taken as 0. source: for messages.
void assign_weights(Model& model, const TensorMap& tensors, const std::string& source);

/// read_weights and assign_weights.
void load_weights(Model& model, const std::filesystem::path& path);

}  // namespace composer
