#include "composer/logging/hparams.h"

#include <nlohmann/json.hpp>

#include "base/params/json.h"
#include "composer/logging/events.h"

namespace composer {
namespace {

/// google.protobuf.Value.
ProtobufMessage hparam_of(const nlohmann::ordered_json& json) {
  ProtobufMessage value;
  if (json.is_boolean())
    value.integer(4, json.get<bool>() ? 1 : 0);
  else if (json.is_number())
    value.real64(2, json.get<double>());
  else
    value.bytes(3, json.is_string() ? json.get<std::string>() : std::string("none"));
  return value;
}

ProtobufMessage hparams_data(int field, const ProtobufMessage& message) {
  ProtobufMessage data;
  data.message(field, message);
  return data;
}

}  // namespace

ProtobufMessage session_start(const std::string& recipe, double wall_time) {
  ProtobufMessage info;
  for (const auto& [name, json] : flat_recipe(recipe)) {
    ProtobufMessage entry;
    entry.bytes(1, name);
    entry.message(2, hparam_of(json));
    info.message(1, entry);
  }
  info.real64(5, wall_time);
  return plugin_value("_hparams_/session_start_info", "hparams", hparams_data(3, info).all());
}

ProtobufMessage session_end(bool completed, double wall_time) {
  constexpr int64_t success = 1, failure = 2;
  ProtobufMessage info;
  info.integer(1, completed ? success : failure);
  info.real64(2, wall_time);
  return plugin_value("_hparams_/session_end_info", "hparams", hparams_data(4, info).all());
}

}  // namespace composer
