// The subcommand export: a checkpoint's network for use elsewhere.
#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/output_file.h"
#include "composer/checkpoint/checkpoint.h"
#include "inference/from_checkpoint.h"
#include "inference/network_folder.h"
#include "inference/onnx/onnx_file.h"
#include "inference/torchscript.h"
#include "nn/network/objective.h"

namespace composer {
namespace {

struct ExportOptions {
  std::string path, format, output, weights, names, preprocessing;
  bool probabilities = false, overwrite = false;
};

const std::map<std::string, Preprocessing> preprocessings{{"", Preprocessing::none},
                                                          {"normalize", Preprocessing::normalize},
                                                          {"resize", Preprocessing::resize},
                                                          {"portable", Preprocessing::portable}};

void export_safetensors(const TakenNetwork& taken, const ExportOptions& options) {
  const auto names = options.names.empty() ? LibraryNames{} : names_in(taken, options.names);
  write_network(options.output, taken.network, taken.state, names);
}

void export_torchscript(const TakenNetwork& taken, const ExportOptions& options) {
  write_torchscript(options.output, taken.network, preprocessings.at(options.preprocessing));
}

void export_onnx(const TakenNetwork& taken, const ExportOptions& options) {
  const auto& network = taken.network;
  const auto objective = make_objective(network.loss, {}, network.classes());
  if (options.probabilities && objective && objective->takes_values())
    throw UserError("--probabilities: the network's outputs are values of the loss " +
                    network.loss + ", not classes");
  write_onnx(options.output, network,
             {.preprocessing = preprocessings.at(options.preprocessing),
              .probabilities = options.probabilities});
}

struct Format {
  std::string ending;  ///< file name extension; empty for a folder
  void (*write)(const TakenNetwork&, const ExportOptions&);
};
const std::map<std::string, Format> formats{{"onnx", {".onnx", export_onnx}},
                                            {"safetensors", {"", export_safetensors}},
                                            {"torchscript", {".pt", export_torchscript}}};

void check(const ExportOptions& options, const Format& format) {
  if (!options.names.empty() && options.format != "safetensors")
    throw UserError("--names: is for --format safetensors");
  if (!options.preprocessing.empty() && options.format == "safetensors")
    throw UserError("--preprocessing: is for --format onnx and torchscript");
  if (options.preprocessing == "portable" && options.format != "onnx")
    throw UserError("--preprocessing: portable is for --format onnx; take resize");
  if (options.probabilities && options.format != "onnx")
    throw UserError("--probabilities: is for --format onnx");
  check_on_this_machine("--output", options.output);
  const std::filesystem::path output(options.output);
  if (format.ending.empty()) {
    if (options.overwrite)
      throw UserError(
          "--overwrite: is for files; a folder that this command wrote is replaced, "
          "others are not");
    return check_network_folder(output);
  }
  check_output_file(options.output, options.overwrite, format.ending);
}

}  // namespace

int export_command(const Words& words) {
  CLI::App app(
      "Writes the network of a checkpoint, with what its use needs: weights, structure, how images "
      "are\nprepared, class names, recipe and metrics of the evaluation. docs/inference.md says "
      "what the\nformats hold and how to load them.",
      "export");
  ExportOptions options;
  app.add_option("path", options.path,
                 "a checkpoint folder (runs/NAME/checkpoints/latest), a folder that this command "
                 "wrote, or a\n.safetensors file that tells its recipe")
      ->required();
  app.add_option(
         "--format", options.format,
         "safetensors: a folder that `composer predict --model` reads, whose weights are "
         "Python's too;\ntorchscript: a file for torch.jit.load in Python and C++;\nonnx: a file "
         "for ONNX Runtime, OpenVINO and others")
      ->required()
      ->check(word_of({"safetensors", "torchscript", "onnx"}));
  app.add_option("--output", options.output, "the folder or file to write")->required();
  app.add_option(
      "--weights", options.weights,
      "model, or the algorithm whose average of the weights is wanted (" +
          joined(averaging_algorithms(), ", ") +
          "); default: what evaluation uses: ema's average where there is one, else the model");
  app.add_option("--names", options.names,
                 "safetensors: a library that shall load the weights strictly: torchvision or "
                 "timm")
      ->check(word_of({"torchvision", "timm"}));
  const auto* const preprocessing =
      app.add_option("--preprocessing", options.preprocessing,
                     "onnx, torchscript: takes uint8 images [N, H, W, C] in place of normalised "
                     "ones. normalize (or no word): resized and\ncropped already; resize: of any "
                     "size; portable: of any size in OpenVINO, too (onnx only)")
          ->expected(0, 1)
          ->check(word_of({"normalize", "resize", "portable"}));
  app.add_flag("--probabilities", options.probabilities,
               "onnx: has a second output, probabilities: the softmax of the logits");
  app.add_flag("--overwrite", options.overwrite, "torchscript, onnx: replaces an existing file");
  if (!parse(app, words)) return 0;
  if (preprocessing->count() > 0 && options.preprocessing.empty()) {
    const auto is_empty = [](const std::string& word) {
      return word.empty() || word == "--preprocessing=";
    };
    if (std::ranges::any_of(words, is_empty))
      throw UserError("--preprocessing: its word is empty; give normalize, resize or portable");
    options.preprocessing = "normalize";
  }
  const auto& format = formats.at(options.format);
  check(options, format);
  const auto taken = take_network(options.path, options.weights);
  format.write(taken, options);
  const auto& network = taken.network;
  log::info("wrote the network of " + options.path + " (weights: " + network.weights +
            (network.batch > 0 ? ", after " + quantity(network.batch, "batch") : "") + ") to " +
            options.output);
  return 0;
}

}  // namespace composer
