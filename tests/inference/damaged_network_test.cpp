// Exported networks whose files were changed by hand, by a disk or by an enemy.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "inference/network_folder.h"
#include "inference/quantization/calibration.h"
#include "inference/runtime.h"
#include "quantized.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/temporary_folder.h"

namespace composer::damaged_network_test {
namespace {

using Catch::Matchers::Contains;
using Json = nlohmann::ordered_json;

const test::NetworkCase tiny{"tiny",
                             [] {
                               auto model = std::make_shared<test::TinyModel>();
                               apply_squeeze_excite(*model,
                                                    {.latent_channels = 4, .min_channels = 24}, 1);
                               apply_blurpool(*model, {});
                               return model;
                             },
                             {3, 32, 32}};

/// An exported network of 8 bits and what its description holds.
struct Exported {
  explicit Exported(bool codes = true) {
    auto network = test::trained(tiny, *test::settled(tiny));
    if (codes) network = test::quantized(network, test::random_images(tiny, 4));
    write_network(folder / "net", network);
    std::ifstream(folder / "net/network.json") >> description;
  }
  void put(const Json& json) const {
    std::ofstream(folder / "net/network.json", std::ios::binary) << json;
  }
  /// Of the description with one change.
  std::string problem_with(const std::string& pointer, const Json& value) const {
    auto json = description;
    json.at(Json::json_pointer(pointer)) = value;
    return problem_of(json);
  }
  std::string problem_of(const Json& json) const {
    put(json);
    try {
      read_network(folder / "net");
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  }
  /// With other tensors in a file.
  std::string problem_of(const std::string& file, const TensorMap& tensors) const {
    auto json = description;
    const auto sum = write_safetensors(folder / "net" / file, tensors);
    json["files"][file] = facts_of(sum);
    return problem_of(json);
  }
  TensorMap tensors(const std::string& file) const {
    return read_safetensors(folder / "net" / file);
  }
  TemporaryFolder folder;
  Json description;
};

/// Places in the description: of long lists some entries.
void add_places(const Json& json, const std::string& here, std::vector<std::string>& places) {
  if (!here.empty()) places.push_back(here);
  const auto wanted = [&](size_t i) { return i < 3 || i + 2 > json.size() || i % 7 == 0; };
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      add_places(value, (Json::json_pointer(here) / key).to_string(), places);
  if (json.is_array())
    for (size_t i = 0; i < json.size(); ++i)
      if (wanted(i)) add_places(json[i], here + "/" + std::to_string(i), places);
}

void erase(Json& json, const Json::json_pointer& place) {
  auto& parent = json.at(place.parent_pointer());
  if (parent.is_array())
    parent.erase(std::stoul(place.back()));
  else
    parent.erase(place.back());
}

/// "" where the network is refused as it should be, or runs.
std::string fault_of(const Exported& exported) {
  try {
    const auto network = read_network(exported.folder / "net");
    const auto& [channels, resize, size, normalization] = network.preparation;
    Runtime(network).logits(at::zeros({2, size.height, size.width, channels}, at::kByte));
  } catch (const UserError& error) {
    const std::string text = error.what();
    for (const char* file : {"network.json", "model.safetensors", "constants.safetensors"})
      if (text.find(file) != std::string::npos) return "";
    return "names no file: " + text;
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("whatever is changed in a description, it is refused or runs", "[inference]") {
  const Exported exported;
  std::vector<std::string> places;
  add_places(exported.description, "", places);
  CHECK(places.size() > 200);
  const std::vector<Json> values{nullptr, -1, 0, 3, 1e9, 0.5, "x", Json::array(), Json::object()};
  for (const auto& place : places) {
    CAPTURE(place);
    auto json = exported.description;
    erase(json, Json::json_pointer(place));
    exported.put(json);
    if (const auto fault = fault_of(exported); !fault.empty()) FAIL_CHECK("without it: " << fault);
    for (const auto& value : values) {
      json = exported.description;
      json.at(Json::json_pointer(place)) = value;
      exported.put(json);
      const auto fault = fault_of(exported);
      if (!fault.empty()) FAIL_CHECK(value << ": " << fault);
    }
  }
}

TEST_CASE("damaged codes are named with the file and the entry", "[inference]") {
  const Exported exported;
  const auto& graph = exported.description.at("graph");
  const auto problem = [&](const std::string& place, const Json& value) {
    return exported.problem_with("/quantization/" + place, value);
  };
  const std::string place = "net/network.json: is damaged: quantization: ";
  CHECK_THAT(problem("activation_bits", 9), Contains(place + "activation_bits: must be 7 or 8"));
  for (const Json& scale : {Json(0), Json(-0.1), Json(1e300)})
    CHECK_THAT(problem("activations/1/scale", scale),
               Contains(place + "activations[1]: its scale is not positive"));
  CHECK_THAT(problem("activations/1/scale", nullptr),
             Contains(place + "activations[1]: scale: type must"));
  for (const int zero : {-1, 256})
    CHECK_THAT(problem("activations/0/zero_point", zero),
               Contains(place + "activations[0]: its zero_point is no code of 8 bits"));
  CHECK_THAT(problem("activations/0/value", 10000),
             Contains("activations[0]: the graph has no such value"));
  CHECK_THAT(problem("activations/1/value", graph.at("input")), Contains("has codes already"));
  CHECK_THAT(problem("weights/0/scales", "none"),
             Contains(place + "weights[0]: there is no tensor 'none'"));
  CHECK_THAT(problem("weights/0/value", graph.at("output")), Contains("is no weight of type int8"));
  CHECK_THAT(problem("weights", Json::array()), Contains("is int8 and has no scales"));
  CHECK_THAT(problem("activations", Json::array()), Contains("its input has none"));
  auto json = exported.description;
  json.erase("quantization");
  CHECK_THAT(exported.problem_of(json), Contains("is int8 and has no scales"));

  auto constants = exported.tensors("constants.safetensors");
  const auto scales = "conv1.weight.scales";
  const auto good = constants.at(scales);
  const auto with = [&](const at::Tensor& tensor) {
    constants[scales] = tensor;
    return exported.problem_of("constants.safetensors", constants);
  };
  CHECK_THAT(with(good.narrow(0, 0, 5).clone()),
             Contains("weights[0]: tensor") && Contains("no scale for each of the 16"));
  CHECK_THAT(with(good.to(at::kDouble)), Contains("no scale for each of the 16"));
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY})
    CHECK_THAT(with(at::full({16}, bad)), Contains("scales that are not positive"));
  CHECK(with(good) == "none");
}

TEST_CASE("damaged weights are named with the file and the entry", "[inference]") {
  const Exported exported(false);
  const auto tensors = exported.tensors("model.safetensors");
  const auto with = [&](const at::Tensor& tensor) {
    auto changed = tensors;
    changed.erase("conv1.weight");
    if (tensor.defined()) changed["conv1.weight"] = tensor;
    return exported.problem_of("model.safetensors", changed);
  };
  const auto& weight = tensors.at("conv1.weight");
  CHECK_THAT(with({}), Contains("net/network.json: is damaged: graph: values[") &&
                           Contains("there is no tensor 'conv1.weight'"));
  CHECK_THAT(with(weight.narrow(0, 0, 3).clone()),
             Contains("tensor 'conv1.weight' is Float [3, 3, 3, 3], not Float [16, 3, 3, 3]"));
  CHECK_THAT(with(weight.to(at::kDouble)), Contains("is Double"));
  CHECK(with(weight) == "none");
  const auto file = exported.folder / "net/model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  CHECK_THAT(exported.problem_of(exported.description), Contains("model.safetensors"));
  std::filesystem::remove(file);
  CHECK_THAT(exported.problem_of(exported.description), Contains("model.safetensors"));
  CHECK(with(weight) == "none");
}

TEST_CASE("damaged graphs are named with the file and the entry", "[inference]") {
  const Exported exported(false);
  const auto graph_with = [&](const std::string& place, const Json& value) {
    return exported.problem_with("/graph/operations/" + place, value);
  };
  const auto& operations = exported.description.at("graph").at("operations");
  const auto last = std::to_string(operations.size() - 1);
  // One that reads what comes after it, its own output, and what another has made.
  CHECK_THAT(graph_with("0/inputs/0", operations.back().at("output")),
             Contains("graph: operations[0], conv2d of 'conv1': reads a value that nothing made"));
  CHECK_THAT(graph_with("1/inputs/0", operations[1].at("output")), Contains("nothing made"));
  CHECK_THAT(graph_with(last + "/output", operations[0].at("output")), Contains("made twice"));
  CHECK_THAT(graph_with("0/options/stride", Json({1, 1})),
             Contains("operations[0]") && Contains("gives float [1, 16, "));
  CHECK_THAT(graph_with("0/options/groups", 0), Contains("groups cannot be 0"));
  CHECK_THAT(graph_with("0/options/kernel", Json({5, 5})), Contains("do not fit"));
  CHECK_THAT(exported.problem_with("/files/model.safetensors", nullptr),
             Contains("net/network.json: is damaged: files: "));
  CHECK_THAT(exported.problem_with("/class_names", Json(std::vector<std::string>(9, "a"))),
             Contains("class_names: has more than the 5 classes"));
}

TEST_CASE("numbers that are not whole are named, where whole ones are meant", "[inference]") {
  const Exported exported;
  const auto problem = [&](const std::string& place, const Json& value) {
    return exported.problem_with(place, value);
  };
  const std::string damaged = "net/network.json: is damaged: ";
  for (const Json& value : {Json(0.5), Json(32.5), Json(32.0), Json(1e300), Json("32")}) {
    CAPTURE(value);
    const auto text = ": must be a whole number";
    for (const char* key : {"channels", "resize_size", "height", "width"})
      CHECK_THAT(problem(std::string("/preparation/") + key, value),
                 Contains(damaged + "preparation: " + key + text));
    for (const char* key : {"epoch", "batch"})
      CHECK_THAT(problem(std::string("/") + key, value), Contains(damaged + key + text));
    for (const char* key : {"input", "output"})
      CHECK_THAT(problem(std::string("/graph/") + key, value),
                 Contains(damaged + "graph: " + key + text));
    CHECK_THAT(problem("/graph/values/0/shape/2", value),
               Contains(damaged + "graph: values[0]: shape" + text));
    const auto operation = damaged + "graph: operations[0]: ";
    CHECK_THAT(problem("/graph/operations/0/options/stride/1", value),
               Contains(operation + "stride" + text));
    CHECK_THAT(problem("/graph/operations/0/options/groups", value),
               Contains(operation + "groups" + text));
    CHECK_THAT(problem("/graph/operations/0/inputs/1", value),
               Contains(operation + "inputs[1]" + text));
    CHECK_THAT(problem("/graph/operations/0/output", value), Contains(operation + "output" + text));
    const auto codes = damaged + "quantization: ";
    CHECK_THAT(problem("/quantization/activation_bits", value),
               Contains(codes + "activation_bits" + text));
    CHECK_THAT(problem("/quantization/activations/1/zero_point", value),
               Contains(codes + "activations[1]: zero_point" + text));
    CHECK_THAT(problem("/quantization/weights/0/value", value),
               Contains(codes + "weights[0]: value" + text));
  }
  CHECK_THAT(problem("/graph/output", -1), Contains("a whole number that is not negative, not -1"));
  CHECK_THAT(problem("/format_version", 1.5), Contains("format version 1.5; this program reads 1"));
}

}  // namespace composer::damaged_network_test
