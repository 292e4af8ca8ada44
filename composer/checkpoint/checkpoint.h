// Checkpoints: a folder ep{epoch}-ba{batch}/ of safetensors files and a manifest that says what
// they hold. checkpoint_writer.h makes one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/recipe/registry.h"
#include "nn/state_dict.h"

namespace composer {

/// The file of parameters and buffers in a checkpoint's folder, if one rank wrote them all.
inline constexpr const char* model_file = "model-00001-of-00001.safetensors";
/// The prefix of all files of parameters and buffers.
inline constexpr const char* model_files = "model-";

/// Everything that a run needs to be resumed exactly.
struct Checkpoint : Provenance {
  Timestamp time;
  int64_t evaluated_batch = -1;  ///< the batch after which the last evaluation ended
  uint64_t seed = 0;
  int64_t grad_accum = 1;
  int64_t train_batch_size = 1, batches_per_epoch = 1, samples_per_epoch = 1;
  std::string data;  ///< Loader::digest() of the training data; empty: not known
  std::map<std::string, at::Tensor> model;  ///< parameters and buffers by PyTorch's names
  /// The rank that has a tensor of `model`; every rank has the tensors that are not named here.
  std::map<std::string, int64_t> model_holders;
  StateDict optimizer;
  /// "algorithms.<name>", "callbacks.<name>", "scaler", "train_metrics".
  std::map<std::string, StateDict> parts;
  /// Differences in compute threads, instruction set and build between a loaded checkpoint and this
  /// process, one line each. With differences a resumed run is not bit-exact.
  std::vector<std::string> differences;
};

/// The name of a checkpoint's folder: "ep3-ba144".
std::string checkpoint_name(const Timestamp& time);

/// A file of a checkpoint, with tensors by name.
struct TensorFile {
  std::string name;
  int64_t rank = 0;  ///< the rank that writes the file
  std::map<std::string, at::Tensor> tensors;
};

/// The files of a checkpoint that `ranks` ranks write. A rank writes the tensors that only it
/// holds. Of the others, the first rank writes weights and parts; the optimizer's tensors are
/// divided so that all ranks write about as many bytes of weights and optimizer. The same names,
/// types, shapes and holders give the same files.
std::vector<TensorFile> tensor_files(const Checkpoint& checkpoint, int64_t ranks);

/// The manifest of a checkpoint in these files, without their checksums ("files").
nlohmann::ordered_json manifest_of(const Checkpoint& checkpoint,
                                   const std::vector<TensorFile>& files);

/// Loads a checkpoint. UserError naming the file if it is missing, has another format version, or
/// fails its checksum. with_optimizer: false skips the optimizer's files.
Checkpoint load_checkpoint(const std::filesystem::path& path, bool with_optimizer = true);

/// The result of load_checkpoint() without tensors, whose files are not read.
Checkpoint read_checkpoint_facts(const std::filesystem::path& path);

/// The manifest and the tensors (name, shape) as text, for `composer checkpoint info`.
std::string describe_checkpoint(const std::filesystem::path& path);

/// The names of registered algorithms that average the weights.
std::vector<std::string> averaging_algorithms();

/// Whether the algorithm changes predictions.
bool acts_on_predictions(const Component& algorithm);

/// The weights that an evaluation of the checkpoint uses: the name of the algorithm whose average
/// replaces the model's weights, else "model".
std::string weights_of_evaluation(const Checkpoint& checkpoint);

/// The model's tensors, with the averages of `algorithm` in their place; "model": the model's own.
/// UserError naming `path` if the checkpoint has no such average.
std::map<std::string, at::Tensor> weights_of(const Checkpoint& checkpoint,
                                             const std::string& algorithm, const std::string& path);

}  // namespace composer
