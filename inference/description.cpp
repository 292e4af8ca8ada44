#include "inference/description.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "composer/logging/json_number.h"

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
  Preparation all{.channels = json.at("channels").get<int64_t>(),
                  .resize_size = json.at("resize_size").get<int64_t>(),
                  .size = {json.at("height").get<int64_t>(), json.at("width").get<int64_t>()},
                  .normalization = {json.at("mean").get<std::vector<double>>(),
                                    json.at("std").get<std::vector<double>>()}};
  const auto channels = static_cast<size_t>(all.channels);
  if ((channels != 1 && channels != 3) || all.normalization.mean.size() != channels ||
      all.normalization.std.size() != channels ||
      !std::ranges::all_of(all.normalization.std, [](double value) { return value > 0; }) ||
      all.size.height < 1 || all.size.width < 1)
    throw std::invalid_argument("its preparation of images is none");
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
  network.preparation = preparation_from(json.at("preparation"));
  json.at("preparation").at("resize_filter").get_to(network.resize_filter);
  json.at("class_names").get_to(network.class_names);
  json.at("recipe").get_to(network.recipe);
  json.at("layers").get_to(network.outline);
  json.at("weights").get_to(network.weights);
  json.at("epoch").get_to(network.epoch), json.at("batch").get_to(network.batch);
  for (const auto& [name, value] : json.at("metrics").items())
    network.metrics[name] = number_of(value);
  return network;
}

}  // namespace composer
