#include "inference/network_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "composer/error.h"
#include "composer/storage/atomic_file.h"
#include "composer/storage/manifest.h"
#include "composer/storage/provenance.h"
#include "composer/storage/weights.h"
#include "inference/description.h"
#include "inference/graph_json.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kDescription = "network.json";
constexpr const char* kWeights = exported_weights;
constexpr const char* kConstants = "constants.safetensors";
constexpr const char* kUnfinished = ".unfinished_network";

Json to_json(const Quantization& quantization, const Graph& graph) {
  Json activations = Json::array(), weights = Json::array();
  for (const auto& [value, codes] : quantization.activations)
    activations.push_back(
        {{"value", value}, {"scale", codes.scale}, {"zero_point", codes.zero_point}});
  for (const auto& [value, scales] : quantization.weight_scales)
    weights.push_back({{"value", value}, {"scales", constant_name(graph, value) + ".scales"}});
  return {{"activation_bits", quantization.activation_bits},
          {"activations", std::move(activations)},
          {"weights", std::move(weights)}};
}

Quantization quantization_from(const Json& json, const Graph& graph, const TensorMap& tensors) {
  Quantization all{.activation_bits = json.at("activation_bits").get<int64_t>(),
                   .activations = {},
                   .weight_scales = {}};
  const auto value_of = [&](const Json& entry) {
    const auto value = entry.at("value").get<size_t>();
    if (value >= graph.values.size()) throw std::invalid_argument("codes of a value that is none");
    return value;
  };
  for (const auto& entry : json.at("activations"))
    all.activations[value_of(entry)] = {entry.at("scale").get<double>(),
                                        entry.at("zero_point").get<int64_t>()};
  for (const auto& entry : json.at("weights")) {
    const auto found = tensors.find(entry.at("scales").get<std::string>());
    const auto& weight = graph.values[value_of(entry)];
    if (found == tensors.end() || found->second.scalar_type() != at::kFloat ||
        found->second.dim() != 1 || weight.type != at::kChar || weight.shape.empty() ||
        found->second.size(0) != weight.shape[0])
      throw std::invalid_argument("weights without a scale for each output");
    all.weight_scales[value_of(entry)] = found->second;
  }
  return all;
}

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
    all[constant_name(graph, value) + ".scales"] = scales;
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

Json read_description(const fs::path& folder) {
  const auto path = folder / kDescription;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError(folder.string() + ": is no exported network: it has no " + kDescription +
                    (fs::exists(folder / "manifest.json")
                         ? "; it is a checkpoint: give it as --load_path, or export it first"
                         : ""));
  auto json = Json::parse(std::istreambuf_iterator<char>(file), {}, nullptr, false);
  if (!json.is_object() || json.value("format", "") != "composer network")
    throw UserError(path.string() + ": is no description of a network, or damaged");
  if (json.value("format_version", 0) != network_version)
    throw UserError(path.string() + ": format version " +
                    json.value("format_version", Json()).dump() + "; this program reads " +
                    std::to_string(network_version));
  return json;
}

}  // namespace

void make_network_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder))
    throw UserError("--output: " + folder.string() + " cannot be made a folder" +
                    (error ? ": " + error.message() : ""));
  if (!fs::is_empty(folder) && !fs::exists(folder / kDescription) &&
      !fs::exists(folder / kUnfinished))
    throw UserError("--output: " + folder.string() +
                    " holds other things than a network; name a new folder");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw UserError("--output: " + folder.string() +
                    " cannot be written to: " + std::strerror(errno));
}

void write_network(const fs::path& folder, const TrainedNetwork& network, TensorMap state) try {
  make_network_folder(folder);
  if (state.empty()) state = named_constants(network.graph);
  const auto beside = constants_beside(network, state);
  auto json = description_of(network);
  if (!network.quantization.empty())
    json["quantization"] = to_json(network.quantization, network.graph);
  json["graph"] = to_json(network.graph);
  const Unfinished files(folder);
  json["files"][kWeights] = facts_of(
      write_safetensors(files / kWeights, state,
                        to_metadata({network.recipe, network.outline, network.class_names})));
  if (!beside.empty())
    json["files"][kConstants] = facts_of(write_safetensors(files / kConstants, beside));
  write_whole(files / kDescription, description_text(json) + "\n");
  files.finish();
} catch (const fs::filesystem_error& error) {
  throw RunError(folder.string() + ": cannot be written: " + error.code().message());
}

TrainedNetwork read_network(const fs::path& folder) try {
  const auto json = read_description(folder);
  json.at("files").at(kWeights);
  verify_files(folder, json);
  auto tensors = read_safetensors(folder / kWeights);
  if (json.at("files").contains(kConstants)) tensors.merge(read_safetensors(folder / kConstants));
  auto network = described(json);
  network.graph = graph_from(json.at("graph"), [&](const std::string& name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? at::Tensor() : found->second;
  });
  const auto& [channels, resize, size, normalization] = network.preparation;
  if (network.graph.values[network.graph.input].shape !=
      std::vector<int64_t>{1, channels, size.height, size.width})
    throw std::invalid_argument("its graph does not take one of the images that it prepares");
  if (json.contains("quantization"))
    network.quantization = quantization_from(json.at("quantization"), network.graph, tensors);
  return network;
} catch (const nlohmann::json::exception& error) {
  throw UserError((folder / kDescription).string() + ": is damaged: " + error.what());
} catch (const std::invalid_argument& error) {
  throw UserError((folder / kDescription).string() + ": is damaged: " + error.what());
}

}  // namespace composer
