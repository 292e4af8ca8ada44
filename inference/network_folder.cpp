#include "inference/network_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/params/foreign_json.h"
#include "composer/checkpoint/manifest.h"
#include "composer/checkpoint/weights.h"
#include "inference/description.h"
#include "inference/graph/graph_json.h"
#include "inference/graph/json_location.h"
#include "inference/quantization/quantization_json.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kDescription = "network.json";
constexpr const char* kWeights = exported_weights;
constexpr const char* kConstants = "constants.safetensors";
constexpr const char* kUnfinished = ".unfinished_network";

/// The graph's constants and its codes' scales by their names: those of `state` are not among them.
TensorMap constants_beside(const TrainedNetwork& network, const TensorMap& state) {
  TensorMap all;
  const auto& graph = network.graph;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const auto name = constant_name(graph, i);
    if (graph.values[i].constant.defined() && !state.contains(name))
      all[name] = graph.values[i].constant.contiguous();
  }
  for (const auto& [value, scales] : network.quantization.weight_scales)
    all[scales_name(graph, value)] = scales;
  return all;
}

TensorMap named_constants(const Graph& graph) {
  TensorMap all;
  for (const auto& value : graph.values)
    if (value.constant.defined() && !value.name.empty())
      all[value.name] = value.constant.contiguous();
  return all;
}

/// Files on their way into a network's folder. Until all are written, an older network there stays
/// whole; what never comes to its end is taken away.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& folder) : folder_(folder), place_(folder / kUnfinished) {
    fs::remove_all(place_);
    fs::create_directory(place_);
  }
  ~Unfinished() {
    std::error_code ignored;
    fs::remove_all(place_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  fs::path operator/(const char* name) const { return place_ / name; }

  /// The description comes last.
  void finish() const {
    fs::remove(folder_ / "quantization.json");  // which tells of the network before
    for (const char* name : {kWeights, kConstants, kDescription})
      if (fs::exists(place_ / name))
        fs::rename(place_ / name, folder_ / name);
      else
        fs::remove(folder_ / name);
    flush_folder(folder_);
  }

 private:
  fs::path folder_, place_;
};

/// The path, or what is to hold it: a folder above it.
fs::path first_that_exists(const fs::path& path) {
  std::error_code error;
  auto there = fs::absolute(path);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  return there;
}

/// What a folder without a description is instead.
std::string described_otherwise(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return "there is no such folder";
  if (fs::is_directory(folder, error))
    return std::string("is no exported network: it has no ") + kDescription +
           (fs::exists(folder / "manifest.json", error)
                ? "; it is a checkpoint: export it first, or give it to predict as --load_path"
                : "");
  const auto parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  return "is a file, and no folder that `composer export --format safetensors` or `composer "
         "quantize` wrote" +
         (fs::exists(parent / kDescription, error) ? "; did you mean " + parent.string() + "?"
                                                   : std::string());
}

Json read_description(const fs::path& folder) {
  const auto path = folder / kDescription;
  std::ifstream file(path, std::ios::binary);
  if (!file && ::access(path.c_str(), R_OK) != 0 && errno != ENOENT && errno != ENOTDIR)
    throw UserError(path.string() + ": cannot be read: " + std::strerror(errno));
  if (!file) throw UserError(folder.string() + ": " + described_otherwise(folder));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto json = parse_foreign<Json>(text);
  if (!json.is_object() || json.value("format", Json()) != "composer network")
    throw UserError(path.string() + ": is no description of a network, or damaged");
  if (const auto version = json.value("format_version", Json()); version != network_version)
    throw UserError(path.string() + ": format version " + shown_value(version) +
                    "; this program reads " + std::to_string(network_version));
  return json;
}

}  // namespace

void check_network_folder(const fs::path& folder) {
  for (const char* ending : {".safetensors", ".pt", ".pth", ".onnx"})
    if (folder.extension() == ending)
      throw UserError("--output: " + folder.string() + ": this makes a folder; name one without " +
                      ending);
  std::error_code error;
  const auto there = first_that_exists(folder);
  if (!fs::is_directory(there, error))
    throw UserError("--output: " + folder.string() + " cannot be made a folder: " + there.string() +
                    " is a file");
  if (::access(there.c_str(), R_OK | W_OK | X_OK) != 0)
    throw UserError("--output: " + there.string() +
                    " cannot be written to: " + std::strerror(errno));
  if (fs::exists(folder, error) && !fs::is_empty(folder, error) &&
      !fs::exists(folder / kDescription, error) && !fs::exists(folder / kUnfinished, error))
    throw UserError("--output: " + folder.string() +
                    " holds other things than a network; name a new folder");
}

void write_network(const fs::path& folder, const TrainedNetwork& network, TensorMap state,
                   const LibraryNames& names) try {
  check_network_folder(folder);
  fs::create_directories(folder);
  if (state.empty()) state = named_constants(network.graph);
  const auto beside = constants_beside(network, state);
  auto json = description_of(network);
  if (!network.quantization.empty())
    json["quantization"] = to_json(network.quantization, network.graph);
  json["graph"] = to_json(network.graph);
  const Unfinished files(folder);
  auto metadata = to_metadata({network.recipe, network.outline, network.class_names});
  metadata.merge(names_metadata(names, state));
  json["files"][kWeights] =
      facts_of(write_safetensors(files / kWeights, in_names_of(names, state), metadata));
  if (!beside.empty())
    json["files"][kConstants] = facts_of(write_safetensors(files / kConstants, beside));
  write_whole(files / kDescription, description_text(json) + "\n");
  files.finish();
} catch (const fs::filesystem_error& error) {
  throw RunError(folder.string() + ": cannot be written: " + error.code().message());
}

TrainedNetwork read_network(const fs::path& folder) try {
  const auto json = read_description(folder);
  at_place("files", [&] {
    json.at("files").at(kWeights);
    for (const auto& [name, facts] : json.at("files").items()) facts.at("bytes"), facts.at("crc32");
  });
  verify_files(folder, json);
  auto tensors = read_named_safetensors(folder / kWeights);
  if (json.at("files").contains(kConstants)) tensors.merge(read_safetensors(folder / kConstants));
  auto network = described(json);
  at_place("graph", [&] {
    network.graph = graph_from(json.at("graph"), [&](const std::string& name) {
      const auto found = tensors.find(name);
      return found == tensors.end() ? at::Tensor() : found->second;
    });
  });
  const auto& [channels, resize, size, normalization] = network.preparation;
  if (network.graph.values[network.graph.input].shape !=
      std::vector<int64_t>{1, channels, size.height, size.width})
    throw std::invalid_argument("its graph does not take one of the images that it prepares");
  if (std::ssize(network.class_names) > network.classes())
    throw std::invalid_argument("class_names: has more than the " +
                                std::to_string(network.classes()) + " classes of its graph");
  at_place("quantization", [&] {
    if (json.contains("quantization"))
      network.quantization = quantization_from(json.at("quantization"), network.graph, tensors);
    check_codes(network.graph, network.quantization);
  });
  return network;
} catch (const nlohmann::json::exception& error) {
  throw UserError((folder / kDescription).string() + ": is damaged: " + error.what());
} catch (const std::invalid_argument& error) {
  throw UserError((folder / kDescription).string() + ": is damaged: " + error.what());
}

}  // namespace composer
