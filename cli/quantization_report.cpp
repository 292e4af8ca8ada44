#include "cli/quantization_report.h"

#include <nlohmann/json.hpp>

#include "base/json_number.h"
#include "base/number_text.h"
#include "cli/table.h"
#include "inference/quantization/points.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

Json metrics_json(const QuantizationReport::Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = json_number(value);
  return json;
}

}  // namespace

std::vector<QuantizationReport::Layer> layers_of(const TrainedNetwork& network,
                                                 const std::map<size_t, double>& errors,
                                                 const std::map<std::string, std::string>& kept) {
  std::vector<QuantizationReport::Layer> layers;
  for (const auto& operation : network.graph.operations) {
    if (operation.kind != OperationKind::conv2d && operation.kind != OperationKind::linear)
      continue;
    QuantizationReport::Layer layer{
        layer_name(network.graph, operation), std::string(name(operation.kind)), {}, {}};
    if (network.quantization.weight_scales.contains(*operation.inputs[1])) {
      layer.error = errors.at(operation.output);
    } else {
      const auto found = kept.find(layer.layer);
      layer.why_float =
          found != kept.end() ? found->second : "its weight is no constant of its own";
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

Json to_json(const QuantizationReport& report) {
  Json layers = Json::array();
  for (const auto& layer : report.layers) {
    Json json{{"layer", layer.layer},
              {"operation", layer.operation},
              {"type", layer.error ? "int8" : "float32"}};
    if (layer.error) json["sqnr_db"] = json_number(*layer.error);
    if (!layer.why_float.empty()) json["reason"] = layer.why_float;
    layers.push_back(std::move(json));
  }
  Json json{{"calibration", {{"data", report.calibration}, {"samples", report.samples}}},
            {"activation_bits", report.activation_bits},
            {"bias_correction", report.bias_correction},
            {"layers", std::move(layers)},
            {"logits_sqnr_db", json_number(report.logits_error)}};
  if (!report.evaluation.empty())
    json["evaluation"] = {{"data", report.evaluation},
                          {"float32", metrics_json(report.before)},
                          {"int8", metrics_json(report.after)}};
  return json;
}

std::vector<std::string> table_of(const QuantizationReport& report) {
  std::vector<Words> rows{{"layer", "computes in", "SQNR dB", ""}};
  for (const auto& layer : report.layers)
    rows.push_back({layer.layer.empty() ? layer.operation : layer.layer,
                    layer.error ? "int8" : "float32",
                    layer.error ? number_text(*layer.error, 1) : "", layer.why_float});
  rows.push_back({"logits", "", number_text(report.logits_error, 1), ""});
  auto lines = aligned(rows, "<<><");
  if (report.before.empty()) return lines;
  rows = {{"", "float32", "int8", ""}};
  for (size_t i = 0; i < report.before.size(); ++i)
    rows.push_back({report.before[i].first, number_text(report.before[i].second, 4),
                    number_text(report.after[i].second, 4), ""});
  for (auto& line : aligned(rows, "<<><")) lines.push_back(std::move(line));
  return lines;
}

}  // namespace composer
