// Keys whose value may be `auto`: the data and weights of the run decide it
// (composer/run/automatic_values.h).
#pragma once

#include <span>
#include <string_view>

#include "base/params/value.h"

namespace composer {

struct AutomaticKey {
  std::string_view key;       ///< dotted; `*` stands for a component's name
  std::string_view stand_in;  ///< the value until the key is decided; empty: the default
  std::string_view meaning;
};

/// All keys, in the order in which they are decided.
std::span<const AutomaticKey> automatic_keys();

/// The key of the dotted `path`, "model.resnet.num_classes" or with `*` for the component; null if
/// the value at `path` cannot be `auto`.
const AutomaticKey* find_automatic(std::string_view path);

/// Whether the value is the word auto, without quotes.
bool is_automatic(const Value& value);

/// The value at the dotted path below `root`, or null.
Value* find_path(Value& root, std::string_view path);
/// Sets the value at the dotted path. The maps above it must exist.
void set_path(Value& root, std::string_view path, Value value);

}  // namespace composer
