// The subcommand checkpoint: shows and verifies a checkpoint, and writes its tensors to other
// files.
#include "composer/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/fetched.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/output_file.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/torch_file.h"
#include "composer/checkpoint/weights.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

struct CheckpointOptions {
  std::string action, path, output, to;
  bool everything = false, overwrite = false;
  int64_t shards = 1;
};

bool is_own(const fs::path& path) { return fs::exists(path / "manifest.json"); }

/// The tensors to write for other programs: the weights, or with `everything` all tensors under
/// their names in the checkpoint's files.
TensorMap tensors_of(const fs::path& path, bool everything) {
  if (fs::exists(path / ".metadata"))
    throw UserError(path.string() +
                    ": is PyTorch's distributed checkpoint in its own format; write it with "
                    "HuggingFaceStorageWriter (safetensors), or use torch.distributed.checkpoint."
                    "format_utils.dcp_to_torch_save for a .pth file");
  const bool exported = weights_file(path) != path;
  if (!fs::is_directory(path) || is_dcp_folder(path) || exported) {
    if (everything)
      throw UserError("--everything: " + path.string() +
                      " is no checkpoint of a run: all that it holds is taken without it");
    return read_weights(weights_file(path));
  }
  auto checkpoint = load_checkpoint(path);
  if (!everything) {
    for (const auto& name : averaging_algorithms())
      if (checkpoint.parts.contains("algorithms." + name))
        log::info("the weights are the model's own; the average that " + name +
                  " keeps is written by composer export --weights " + name);
    return std::move(checkpoint.model);
  }
  TensorMap all;
  for (auto& file : tensor_files(checkpoint, 1)) {
    all.merge(file.tensors);
    if (!file.tensors.empty())
      throw UserError("--everything: '" + file.tensors.begin()->first +
                      "' is the name of two tensors of " + path.string());
  }
  return all;
}

std::string described(const TensorMap& tensors) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return std::to_string(tensors.size()) + " tensors of " + std::to_string(bytes) + " bytes";
}

int info(const CheckpointOptions& options) {
  std::cout << describe_checkpoint(fetched(options.path));
  return 0;
}

int verify(const CheckpointOptions& options) {
  const fs::path path = fetched(options.path);
  try {
    const auto tensors = tensors_of(path, /*everything=*/is_own(path));
    const auto file = weights_file(path);
    const bool compared =
        is_own(path) || (file.filename() == exported_weights && verify_export(file.parent_path()));
    std::cout << shown_path(options.path)
              << (compared ? ": whole: " : ": can be read, without checksums to compare: ")
              << described(tensors) << '\n';
    if (const auto bad = not_finite(tensors); !bad.empty())
      log::warn(shown_path(options.path) + ": " + std::to_string(bad.size()) +
                " tensors hold numbers that are not finite, the first is " + bad.front());
    return 0;
  } catch (const DamagedCheckpoint& error) {
    if (!fs::exists(path) || latest_below(path)) throw;
    std::cout << error.what() << '\n';
    return 1;
  } catch (const UserError& error) {
    if (is_own(path) || !fs::exists(path)) throw;
    std::cout << error.what() << '\n';
    return 1;
  }
}

struct Target {
  std::string ending;  ///< file name extension; empty for a folder
  void (*write)(const CheckpointOptions&, const TensorMap&);
};

const std::map<std::string, Target> targets{
    {"safetensors",
     {".safetensors",
      [](const CheckpointOptions& options, const TensorMap& tensors) {
        write_safetensors(options.output, tensors, {{"format", "pt"}});
      }}},
    {"pth",
     {".pth", [](const CheckpointOptions& options,
                 const TensorMap& tensors) { write_torch_file(options.output, tensors); }}},
    {"dcp", {"", [](const CheckpointOptions& options, const TensorMap& tensors) {
               write_dcp(options.output, tensors, options.shards);
             }}}};

int convert(const CheckpointOptions& options) {
  if (options.to.empty())
    throw UserError("convert: needs --to: " + joined(names_in(targets), " or "));
  const auto& [ending, write] = targets.at(options.to);
  if (options.shards > 1 && options.to != "dcp") throw UserError("--shards: is for --to dcp");
  if (options.output.empty()) throw UserError("--output: is missing: what to write");
  check_on_this_machine("--output", options.output);
  if (!ending.empty() && fs::path(options.output).extension() != ending)
    throw UserError("--output: " + options.output + " must end in " + ending);
  const fs::path path = fetched(options.path);
  const auto output = fs::weakly_canonical(fs::absolute(options.output));
  const auto read = fs::weakly_canonical(fs::absolute(path));
  if (std::ranges::mismatch(read, output).in1 == read.end())
    throw UserError("--output: " + options.output + " is what is read, or lies in it");
  if (!ending.empty()) {
    check_output_file(options.output, options.overwrite);
  } else {
    if (options.overwrite) throw UserError("--overwrite: is for files");
    if (!fs::is_directory(output.parent_path()))
      throw UserError("--output: there is no folder '" + output.parent_path().string() + "'");
    if (fs::exists(output) && !(fs::is_directory(output) && fs::is_empty(output)))
      throw UserError("--output: " + options.output + " is there already; name another folder");
  }
  const auto tensors = tensors_of(path, options.everything);
  write(options, tensors);
  log::info("wrote " + described(tensors) + " of " + shown_path(options.path) + " to " +
            options.output);
  return 0;
}

int consolidate(const CheckpointOptions& options) {
  auto into = options;
  into.to = "safetensors";
  return convert(into);
}

}  // namespace

int checkpoint_command(const Words& words) {
  if (!words.empty() && words[0] == "export")
    throw UserError(
        "composer checkpoint export: is now composer export CHECKPOINT --format safetensors "
        "--output FOLDER, which --load_path takes, with the weights in FOLDER/model.safetensors");
  CLI::App app(
      "Shows what a checkpoint holds, looks whether it is whole, and writes its weights in other "
      "files.\nWhat a use of the network needs besides the weights is taken out by `composer "
      "export`.",
      "checkpoint");
  CheckpointOptions options;
  app.add_option("action", options.action,
                 "info: the manifest and the tensors; verify: reads everything, exit status 1 "
                 "where it is damaged;\nconsolidate: one .safetensors file of all shards; "
                 "convert: another kind of file")
      ->required()
      ->check(word_of({"info", "verify", "consolidate", "convert"}));
  app.add_option("path", options.path,
                 "a checkpoint folder; s3:// and https:// too. Except for info also a folder of "
                 "PyTorch's\ndistributed checkpoint (safetensors files), a .safetensors or .pth "
                 "file")
      ->required();
  app.add_option("--output", options.output, "consolidate, convert: the file or folder to write");
  app.add_option("--to", options.to,
                 "convert: safetensors, pth (torch.load), or dcp: a folder for "
                 "torch.distributed.checkpoint's\nHuggingFaceStorageReader")
      ->check(word_of({"safetensors", "pth", "dcp"}));
  app.add_option("--shards", options.shards, "convert --to dcp: files to spread each tensor over")
      ->check(CLI::Range(int64_t{1}, int64_t{99999}));
  app.add_flag("--everything", options.everything,
               "consolidate, convert: the tensors of optimizer, algorithms and callbacks too");
  app.add_flag("--overwrite", options.overwrite, "consolidate, convert: replaces an existing file");
  if (!parse(app, words)) return 0;
  const std::map<std::string, int (*)(const CheckpointOptions&)> actions{
      {"info", info}, {"verify", verify}, {"consolidate", consolidate}, {"convert", convert}};
  const bool writes = options.action == "consolidate" || options.action == "convert";
  if (!writes && (!options.output.empty() || options.everything || options.overwrite))
    throw UserError(std::string(!options.output.empty() ? "--output"
                                : options.everything    ? "--everything"
                                                        : "--overwrite") +
                    ": is for consolidate and convert");
  if (options.action != "convert" && (!options.to.empty() || options.shards > 1))
    throw UserError((options.to.empty() ? "--shards" : "--to") + std::string(": is for convert"));
  return actions.at(options.action)(options);
}

}  // namespace composer
