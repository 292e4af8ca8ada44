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

/// Reads tensors from a .safetensors file, a PyTorch file (.pth, .pt), a checkpoint folder or a
/// folder of PyTorch's distributed checkpoint (dcp.h). Removes prefixes of wrappers before every
/// name ("module.", "_orig_mod.") and the n_averaged of an AveragedModel, and restores the model's
/// names if `composer export` wrote a library's names. UserError as from the readers.
TensorMap read_weights(const std::filesystem::path& path);

/// The tensors under a library's names and in its shapes.
TensorMap in_names_of(const LibraryNames& names, const TensorMap& tensors);

/// The metadata of a .safetensors file of in_names_of(names, tensors), with the original names and
/// shapes.
std::map<std::string, std::string> names_metadata(const LibraryNames& names,
                                                  const TensorMap& tensors);

/// Reads a .safetensors file, with the original names and shapes of its metadata.
TensorMap read_named_safetensors(const std::filesystem::path& path);

/// Removes the prefix that a program put before the network's names ("model.", "backbone."): the
/// prefix without which most names are the model's, or timm's for them. They must be at least half
/// of the model's names, and more than match with the prefix. Among equal prefixes it takes one
/// that names_average() (torch_file.h). Names without the prefix stay if they are the model's, else
/// they are left out. The log tells the removal. ignore: patterns of names to leave out. UserError,
/// naming `source`, if several prefixes fit equally.
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

/// Copies `tensors`, after without_wrapper(), into the parameters and buffers of the same names or
/// of timm's names, converting type and device. Warns if timm's network computes something
/// differently at every size. UserError, before anything is changed, lists missing, unexpected and
/// mis-shaped names, integers in place of weights, and patterns that match nothing, or says that
/// nothing would be copied. A missing num_batches_tracked is taken as 0. The log lists tensors that
/// were not copied. source: the file's name in messages.
Unloaded assign_weights(Model& model, const TensorMap& tensors, const std::string& source,
                        const LoadRules& rules = {});

/// Calls read_weights() and assign_weights(). For a checkpoint of a run it takes
/// weights_of_evaluation(); the log tells if they are an average.
void load_weights(Model& model, const std::filesystem::path& path, const LoadRules& rules = {});

}  // namespace composer
