// Reports what quantization did to a network, as a table and as JSON.
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
    std::optional<double> error;   ///< SQNR of the output in dB; empty: float32
    std::string why_float{};       ///< why the layer stays in float32; empty for a quantized layer
  };

  std::string calibration;  ///< the data
  int64_t samples = 0;
  int64_t activation_bits = 8;
  bool bias_correction = false;
  std::vector<Layer> layers;
  double logits_error = 0;    ///< dB
  std::string evaluation{};   ///< data of the evaluation; empty without one
  Metrics before{}, after{};  ///< metrics of the float32 network and of the quantized one
};

/// errors: by the output value of each operation (Calibration::errors). kept: the layers that stay
/// in float32, each with the reason.
std::vector<QuantizationReport::Layer> layers_of(const TrainedNetwork& network,
                                                 const std::map<size_t, double>& errors,
                                                 const std::map<std::string, std::string>& kept);

nlohmann::ordered_json to_json(const QuantizationReport& report);
std::vector<std::string> table_of(const QuantizationReport& report);

}  // namespace composer
