// What quantization did to a network, for people and programs.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inference/graph/trained_network.h"

namespace composer {

struct QuantizationReport {
  using Metrics = std::vector<std::pair<std::string, double>>;
  struct Layer {
    std::string layer, operation;  ///< layer_name(), "conv2d"
    std::optional<double> error;   ///< of its output, signal to noise in dB; none: float32
    std::string why_float{};       ///< else empty
  };

  std::string calibration;  ///< the data
  int64_t samples = 0;
  int64_t activation_bits = 8;
  bool bias_correction = false;
  std::vector<Layer> layers;
  double logits_error = 0;    ///< dB
  std::string evaluation{};   ///< the data; empty: none
  Metrics before{}, after{};  ///< in float32, with codes
};

/// errors: by the output of an operation (Calibration::errors). kept: layers with the reason.
std::vector<QuantizationReport::Layer> layers_of(const TrainedNetwork& network,
                                                 const std::map<size_t, double>& errors,
                                                 const std::map<std::string, std::string>& kept);

nlohmann::ordered_json to_json(const QuantizationReport& report);
std::vector<std::string> table_of(const QuantizationReport& report);

}  // namespace composer
