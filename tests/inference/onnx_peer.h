// ONNX files in the runtimes that they are for.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "composer/checkpoint/safetensors.h"
#include "tests/temporary_folder.h"

namespace composer::test {

class OnnxPeers {
 public:
  /// Where the network of that name belongs, for images whose logits are known.
  std::filesystem::path file_for(const std::string& name, const at::Tensor& images,
                                 const at::Tensor& logits) {
    tensors_[name + ".images"] = images.contiguous();
    tensors_[name + ".logits"] = logits.contiguous();
    return folder_ / (name + ".onnx");
  }

  /// What onnx_peer.py says; nothing, with a warning, where there is no Python for it.
  std::optional<nlohmann::json> results() const {
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

/// Of one network: no logit further away than `most`, as a share of the largest.
inline void check_distances(const nlohmann::json& result, double most) {
  for (const char* runtime : {"onnxruntime", "openvino"})
    for (const auto& distance : result.at(runtime)) {
      CAPTURE(runtime);
      CHECK(distance.get<double>() < most);
    }
}

}  // namespace composer::test
