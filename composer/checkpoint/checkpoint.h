// Checkpoints: a folder ep{epoch}-ba{batch}/ of safetensors files and a manifest that says what
// they hold. checkpoint_writer.h makes one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "composer/recipe/registry.h"
#include "nn/state_dict.h"

namespace composer {

/// Parameters and buffers, in a checkpoint's folder, where one rank had them all.
inline constexpr const char* model_file = "model-00001-of-00001.safetensors";
/// What the names of the files that hold them begin with, however many there are.
inline constexpr const char* model_files = "model-";

/// Everything a run needs to go on as if it had never stopped.
struct Checkpoint {
  Timestamp time;
  int64_t evaluated_batch = -1;  ///< the batch after which the last evaluation ended
  uint64_t seed = 0;
  int64_t grad_accum = 1;
  int64_t train_batch_size = 1, batches_per_epoch = 1, samples_per_epoch = 1;
  std::string recipe;
  std::string device;  ///< its type: "cpu", "cuda"; empty: not known, in a manifest that lacks it
  std::string precision;  ///< what the recipe's came to, for instance "amp_bf16"; empty likewise
  std::vector<std::string> network;      ///< nn/network/outline.h
  std::vector<std::string> class_names;  ///< in order of their index; may be empty
  std::string data;  ///< Loader::digest() of what it was trained on; empty: not known
  std::map<std::string, at::Tensor> model;  ///< parameters and buffers by PyTorch's names
  /// The rank whose value of a tensor of `model` counts; every rank has those that are not named.
  std::map<std::string, int64_t> model_holders;
  StateDict optimizer;
  std::map<std::string, StateDict>
      parts;  ///< "algorithms.<name>", "callbacks.<name>", "scaler", "train_metrics"
  /// Of a loaded one: what of compute threads, instruction set and build is not as it was, one line
  /// each. A run goes on from it, but not bit by bit as it would have there.
  std::vector<std::string> differences;
};

/// "ep3-ba144".
std::string checkpoint_name(const Timestamp& time);

/// A file of a checkpoint's tensors, by their names in it.
struct TensorFile {
  std::string name;
  int64_t rank = 0;  ///< the one that writes it
  std::map<std::string, at::Tensor> tensors;
};

/// The files of a checkpoint that so many ranks write: the tensors that a rank alone holds it
/// writes itself; of others the first rank writes the weights and the parts' tensors, and each as
/// much of the optimizer's as makes all write about as many bytes of weights and optimizer. The
/// same names, types, shapes and holders give the same files.
std::vector<TensorFile> tensor_files(const Checkpoint& checkpoint, int64_t ranks);

/// The manifest of a checkpoint in these files, all but their checksums ("files").
nlohmann::ordered_json manifest_of(const Checkpoint& checkpoint,
                                   const std::vector<TensorFile>& files);

/// UserError naming the file when something is missing, of another format version, or fails its
/// checksum. with_optimizer: false leaves out the optimizer's tensors, whose files are not read.
Checkpoint load_checkpoint(const std::filesystem::path& path, bool with_optimizer = true);

/// What load_checkpoint gives, without the tensors, of which it reads none.
Checkpoint read_checkpoint_facts(const std::filesystem::path& path);

/// The manifest and the tensors (name, shape) as text for people, for `composer
/// checkpoint info`.
std::string describe_checkpoint(const std::filesystem::path& path);

/// The registered algorithms that average the weights.
std::vector<std::string> averaging_algorithms();

/// Whether the algorithm changes what a prediction computes.
bool acts_on_predictions(const Component& algorithm);

/// What an evaluation of the checkpoint computes with: the algorithm whose average takes the
/// weights' place meanwhile, else "model", whose own it takes.
std::string weights_of_evaluation(const Checkpoint& checkpoint);

/// The model's tensors with those that `algorithm` averaged in their place; of "model" the model's.
/// UserError naming `path` where the checkpoint has no such average.
std::map<std::string, at::Tensor> weights_of(const Checkpoint& checkpoint,
                                             const std::string& algorithm, const std::string& path);

}  // namespace composer
