// Reads weights from files into a model.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "composer/checkpoint/safetensors.h"
#include "nn/network/library_names.h"
#include "nn/network/model.h"

namespace composer {

/// The file of weights in a folder written by `composer export`.
inline constexpr const char* exported_weights = "model.safetensors";

/// All parameters and buffers by name, not copied: the model's tensors in a checkpoint.
TensorMap model_tensors(const torch::nn::Module& model);

/// Names of the floating-point tensors that hold NaN or an infinity. Waits for the device, once.
std::vector<std::string> not_finite(const TensorMap& tensors);

/// The file of weights if `path` is a folder written by `composer export`; else `path`.
std::filesystem::path weights_file(const std::filesystem::path& path);

/// Verifies the files of a folder written by `composer export` whose names begin with `beginning`,
/// by the checksums in its network.json; false if that has none. UserError names a damaged file.
bool verify_export(const std::filesystem::path& folder, std::string_view beginning = "");

/// Tensors from a .safetensors file, a PyTorch file (.pth, .pt), a checkpoint folder or one of
/// PyTorch's distributed checkpoint (dcp.h). Prefixes that wrappers put before every name
/// ("module.", "_orig_mod.") are taken off, with the n_averaged of an AveragedModel, and a
/// library's names that `composer export` gave them are the model's again. UserError as by the
/// readers.
TensorMap read_weights(const std::filesystem::path& path);

/// The tensors under a library's names and in its shapes.
TensorMap in_names_of(const LibraryNames& names, const TensorMap& tensors);

/// The metadata of a .safetensors file of in_names_of(names, tensors), with the original names and
/// shapes.
std::map<std::string, std::string> names_metadata(const LibraryNames& names,
                                                  const TensorMap& tensors);

/// Reads a .safetensors file, with the original names and shapes of its metadata.
TensorMap read_named_safetensors(const std::filesystem::path& path);

/// Takes off the prefix that a program put before the network's names ("model.", "backbone."):
/// the one without which most names are the model's, or timm's for them, if these are at least half
/// of the model's and more than fit as they are. Of several with as many, one that names_average()
/// (torch_file.h). Names without the prefix stay where they are the model's, else are left out. The
/// log says what was done. ignore: patterns of names that are left out. UserError, naming `source`,
/// where several prefixes fit alike.
TensorMap without_wrapper(const Model& model, TensorMap tensors, const std::string& source,
                          const std::vector<std::string>& ignore);

/// The tensors of a file; those with timm's names get the model's names and shapes
/// (Model::names_in).
TensorMap in_own_names(const Model& model, TensorMap tensors);

/// The tensors that a model takes from a file.
struct LoadRules {
  std::vector<std::string> ignore{};  ///< patterns (base/name_pattern.h) of names left out
  bool strict = true;                 ///< missing and unexpected tensors are errors
};

/// The names of tensors that were not copied, sorted.
struct Unloaded {
  std::vector<std::string> fresh;      ///< tensors of the model that were not loaded
  std::vector<std::string> left_over;  ///< tensors of the file that the model lacks
};

/// Copies `tensors` into the parameters and buffers of the same names, or of those that timm calls
/// so, without_wrapper(), converting type and device. Warns of what timm's network computes
/// otherwise at any size. Throws UserError listing missing, unexpected and mis-shaped names,
/// integers in the place of weights and patterns that fit nothing, and where nothing would be
/// copied, before anything is changed; a missing num_batches_tracked is taken as 0. The log lists
/// what was not copied. source: for messages.
Unloaded assign_weights(Model& model, const TensorMap& tensors, const std::string& source,
                        const LoadRules& rules = {});

/// Calls read_weights() and assign_weights(). For a checkpoint of a run it takes
/// weights_of_evaluation(); the log tells if they are an average.
void load_weights(Model& model, const std::filesystem::path& path, const LoadRules& rules = {});

}  // namespace composer
