// ONNX files in the runtimes that they are for.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "composer/storage/safetensors.h"
#include "inference/onnx/onnx_file.h"
#include "networks.h"
#include "onnx_interpreter.h"
#include "range_codes.h"
#include "tests/composer/temporary_folder.h"

namespace composer {
namespace {

class Peers {
 public:
  void add(const std::string& name, const TrainedNetwork& network, const at::Tensor& images,
           const at::Tensor& logits) {
    write_onnx(folder_ / (name + ".onnx"), network,
               {.preprocessing = images.scalar_type() == at::kByte});
    tensors_[name + ".images"] = images;
    tensors_[name + ".logits"] = logits.contiguous();
  }

  /// What onnx_peer.py says; nothing, with a warning, where there is no Python for it.
  std::optional<nlohmann::json> results() {
    const char* const python = std::getenv("COMPOSER_INFERENCE_PYTHON");
    if (python == nullptr) {
      WARN(
          "skipped: COMPOSER_INFERENCE_PYTHON does not name a Python that has onnx, onnxruntime, "
          "openvino and safetensors");
      return {};
    }
    write_safetensors(folder_ / "tensors.safetensors", tensors_);
    const auto command = std::string(python) + " " SOURCE_DIR "/tests/inference/onnx_peer.py " +
                         folder_.path().string();
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream file(folder_ / "peers.json");
    return nlohmann::json::parse(file);
  }

 private:
  TemporaryFolder folder_;
  TensorMap tensors_;
};

void check_distances(const nlohmann::json& result, double most) {
  for (const char* runtime : {"onnxruntime", "openvino"})
    for (const auto& distance : result.at(runtime)) {
      CAPTURE(runtime);
      CHECK(distance.get<double>() < most);
    }
}

TEST_CASE("ONNX Runtime and OpenVINO compute a network's logits", "[inference][onnx][peer]") {
  Peers peers;
  const at::NoGradGuard no_grad;
  for (const auto& given : test::network_cases()) {
    const auto model = test::settled(given);
    const auto network = test::trained(given, *model);
    const auto images = test::random_images(given, 3);
    peers.add(given.name, network, images, model->forward(images));
    const auto bytes =
        at::randint(0, 256, {3, given.image[1], given.image[2], given.image[0]}, at::kByte);
    const auto prepared = ((bytes.to(at::kFloat) - 120) / 60).permute({0, 3, 1, 2});
    peers.add(given.name + " of bytes", network, bytes, model->forward(prepared));
  }
  const auto results = peers.results();
  if (!results) return;
  CHECK(results->size() == 2 * test::network_cases().size());
  for (const auto& [name, result] : results->items()) {
    CAPTURE(name);
    check_distances(result, 1e-4);
  }
}

TEST_CASE("ONNX Runtime and OpenVINO compute with a network's codes", "[inference][onnx][peer]") {
  Peers peers;
  const at::NoGradGuard no_grad;
  for (const size_t index : {0, 1, 3, 5}) {
    const auto given = test::network_cases()[index];
    const auto network = test::with_codes(test::trained(given, *test::settled(given)),
                                          test::random_images(given, 4));
    const auto images = test::random_images(given, 3);
    peers.add(given.name, network, images, test::computed_by_codes(network, images));
  }
  const auto results = peers.results();
  if (!results) return;
  for (const auto& [name, result] : results->items()) {
    CAPTURE(name, result.dump());
    check_distances(result, 5e-2);
    CHECK(result.at("operators").contains("QLinearConv"));
    for (const char* left : {"Conv", "Add", "Relu", "Gemm"})
      CHECK(!result.at("operators").contains(left));
  }
}

}  // namespace
}  // namespace composer
