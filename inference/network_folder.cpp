#include "inference/network_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/params/foreign_json.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "inference/description.h"
#include "inference/graph/graph_json.h"
#include "inference/graph/json_location.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kDescription = "network.json";
constexpr const char* kWeights = exported_weights;
constexpr const char* kConstants = "constants.safetensors";
constexpr const char* kUnfinished = ".unfinished_network";

void refuse_unless(bool fits, const std::string& otherwise) {
  if (!fits) throw std::invalid_argument(otherwise);
}

size_t value_in(const Json& entry, const Graph& graph) {
  const auto value = read_key<size_t>(entry, "value");
  refuse_unless(value < graph.values.size(), "the graph has no such value");
  return value;
}

void read_activation(const Json& entry, const Graph& graph, Quantization& all) {
  const auto value = value_in(entry, graph);
  const Affine codes{read_key<double>(entry, "scale"), read_key<int64_t>(entry, "zero_point")};
  refuse_unless(!graph.values[value].constant.defined(),
                "value " + std::to_string(value) + " is constant, and no activation");
  using Scale = std::numeric_limits<float>;  // the type of scales in kernels
  refuse_unless(codes.scale >= Scale::min() && codes.scale <= Scale::max(),
                "its scale is not positive, or no float");
  refuse_unless(codes.zero_point >= 0 && codes.zero_point < int64_t{1} << all.activation_bits,
                "its zero_point is no code of " + std::to_string(all.activation_bits) + " bits");
  refuse_unless(all.activations.emplace(value, codes).second,
                "value " + std::to_string(value) + " has codes already");
}

void read_weight(const Json& entry, const Graph& graph, const TensorMap& tensors,
                 Quantization& all) {
  const auto index = value_in(entry, graph);
  const auto& weight = graph.values[index];
  refuse_unless(weight.constant.defined() && weight.type == at::kChar && !weight.shape.empty(),
                "value " + std::to_string(index) + " is no weight of type int8");
  const auto name = read_key<std::string>(entry, "scales");
  const auto found = tensors.find(name);
  refuse_unless(found != tensors.end(), "there is no tensor '" + name + "'");
  const auto& scales = found->second;
  refuse_unless(
      scales.scalar_type() == at::kFloat && scales.dim() == 1 && scales.size(0) == weight.shape[0],
      "tensor '" + name + "' has no scale for each of the " + std::to_string(weight.shape[0]) +
          " outputs");
  refuse_unless(scales.isfinite().logical_and(scales > 0).all().item<bool>(),
                "tensor '" + name + "' has scales that are not positive");
  all.weight_scales[index] = scales;
}

std::string scales_name(const Graph& graph, size_t weight) {
  return constant_name(graph, weight) + ".scales";
}

Json to_json(const Quantization& quantization, const Graph& graph) {
  Json activations = Json::array(), weights = Json::array();
  for (const auto& [value, codes] : quantization.activations)
    activations.push_back(
        {{"value", value}, {"scale", codes.scale}, {"zero_point", codes.zero_point}});
  for (const auto& [value, scales] : quantization.weight_scales)
    weights.push_back({{"value", value}, {"scales", scales_name(graph, value)}});
  return {{"activation_bits", quantization.activation_bits},
          {"activations", std::move(activations)},
          {"weights", std::move(weights)}};
}

/// Throws std::invalid_argument that names the entry and its fault, or nlohmann's exceptions.
Quantization quantization_from(const Json& json, const Graph& graph, const TensorMap& tensors) {
  Quantization all;
  read_key(json, "activation_bits", all.activation_bits);
  refuse_unless(all.activation_bits == 7 || all.activation_bits == 8,
                "activation_bits: must be 7 or 8");
  read_entries(json, "activations", [&](const Json& entry) { read_activation(entry, graph, all); });
  read_entries(json, "weights",
               [&](const Json& entry) { read_weight(entry, graph, tensors, all); });
  return all;
}

/// Throws std::invalid_argument where int8 weights have no scales, or a layer cannot compute with
/// its codes.
void check_codes(const Graph& graph, const Quantization& quantization) {
  for (size_t i = 0; i < graph.values.size(); ++i)
    refuse_unless(graph.values[i].type != at::kChar || quantization.weight_scales.contains(i),
                  "tensor '" + constant_name(graph, i) + "' is int8 and has no scales");
  for (const auto& operation : graph.operations) {
    if (!quantization.covers(operation)) continue;
    const auto what = std::string(name(operation.kind)) + " of '" + operation.layer + "' ";
    refuse_unless(quantization.activations.contains(*operation.inputs[0]),
                  what + "has a weight of codes, and its input has none");
    refuse_unless(operation.inputs.size() < 3 || !operation.inputs[2] ||
                      graph.constant(operation, 2).defined(),
                  what + "has a weight of codes, and a bias that is no constant");
  }
}

/// The graph's constants that are not in `state`, and the scales of its weights, by name.
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

/// A temporary folder for the files of a network. Until all are written, an older network stays
/// whole; the destructor removes files that were not moved.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& folder) : folder_(folder), unfinished_(folder / kUnfinished) {
    fs::remove_all(unfinished_);
    fs::create_directory(unfinished_);
  }
  ~Unfinished() {
    std::error_code ignored;
    fs::remove_all(unfinished_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  fs::path operator/(const char* name) const { return unfinished_ / name; }

  /// Moves the files into place, the description last.
  void finish() const {
    fs::remove(folder_ / "quantization.json");  // of an older network
    for (const char* name : {kWeights, kConstants, kDescription})
      if (fs::exists(unfinished_ / name))
        fs::rename(unfinished_ / name, folder_ / name);
      else
        fs::remove(folder_ / name);
    flush_folder(folder_);
  }

 private:
  fs::path folder_, unfinished_;
};

/// The path, or what is to hold it: a folder above it.
fs::path first_that_exists(const fs::path& path) {
  std::error_code error;
  auto there = fs::absolute(path);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  return there;
}

/// Describes a path that has no description of a network.
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
  at_location("files", [&] {
    json.at("files").at(kWeights);
    for (const auto& [name, facts] : json.at("files").items()) facts.at("bytes"), facts.at("crc32");
  });
  verify_files(folder, json);
  auto tensors = read_named_safetensors(folder / kWeights);
  if (json.at("files").contains(kConstants)) tensors.merge(read_safetensors(folder / kConstants));
  auto network = described(json);
  at_location("graph", [&] {
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
  at_location("quantization", [&] {
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
