#include "inference/description.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json_number.h"
#include "inference/graph/json_location.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Preparation& preparation, const std::string& filter) {
  return {{"channels", preparation.channels},
          {"resize_size", preparation.resize_size},
          {"resize_filter", filter},
          {"height", preparation.size.height},
          {"width", preparation.size.width},
          {"mean", preparation.normalization.mean},
          {"std", preparation.normalization.std}};
}

Preparation preparation_from(const Json& json) {
  Preparation all{.channels = read_key<int64_t>(json, "channels"),
                  .resize_size = read_key<int64_t>(json, "resize_size"),
                  .size = {read_key<int64_t>(json, "height"), read_key<int64_t>(json, "width")},
                  .normalization = {read_key<std::vector<double>>(json, "mean"),
                                    read_key<std::vector<double>>(json, "std")}};
  const auto channels = static_cast<size_t>(all.channels);
  if ((channels != 1 && channels != 3) || all.normalization.mean.size() != channels ||
      all.normalization.std.size() != channels ||
      !std::ranges::all_of(all.normalization.std, [](double value) { return value > 0; }) ||
      all.size.height < 1 || all.size.width < 1 || (all.resize_size != -1 && all.resize_size < 1))
    throw std::invalid_argument("has sizes, channels, means or deviations that no images have");
  return all;
}

}  // namespace

Json description_of(const TrainedNetwork& network) {
  Json json{{"format", "composer network"},
            {"format_version", network_version},
            {"weights", network.weights},
            {"epoch", network.epoch},
            {"batch", network.batch},
            {"preparation", to_json(network.preparation, network.resize_filter)},
            {"class_names", network.class_names},
            {"loss", network.loss},
            {"metrics", Json::object()},
            {"recipe", network.recipe},
            {"layers", network.outline}};
  for (const auto& [name, value] : network.metrics) json["metrics"][name] = json_number(value);
  return json;
}

std::string description_text(const Json& description) {
  return description.dump(1, ' ', false, Json::error_handler_t::replace);
}

TrainedNetwork described(const Json& json) {
  TrainedNetwork network;
  at_location("preparation", [&] {
    network.preparation = preparation_from(json.at("preparation"));
    json.at("preparation").at("resize_filter").get_to(network.resize_filter);
    if (network.resize_filter != "triangle" && network.resize_filter != "bicubic" &&
        network.resize_filter != "area")
      throw std::invalid_argument("resize_filter must be triangle, bicubic or area");
  });
  const auto read = [&](const char* key, auto& value) { read_key(json, key, value); };
  read("class_names", network.class_names), read("recipe", network.recipe);
  if (json.contains("loss")) read("loss", network.loss);
  read("layers", network.outline), read("weights", network.weights);
  read("epoch", network.epoch), read("batch", network.batch);
  at_location("metrics", [&] {
    for (const auto& [name, value] : json.at("metrics").items())
      network.metrics[name] = number_of(value);
  });
  return network;
}

}  // namespace composer
