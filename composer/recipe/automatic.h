// Keys whose value may be `auto`: the data and weights of the run decide it
// (composer/run/automatic_values.h).
#pragma once

#include <span>
#include <string_view>

#include "base/params/value.h"

namespace composer {

struct AutomaticKey {
  std::string_view key;       ///< dotted; `*` stands for a component's name
  std::string_view stand_in;  ///< the value until it is decided; empty: the default
  std::string_view meaning;
};

/// In the order in which they are decided.
std::span<const AutomaticKey> automatic_keys();

/// The one that the dotted `path` is, "model.resnet.num_classes" or with `*` for the component;
/// null where `path` takes no `auto`.
const AutomaticKey* find_automatic(std::string_view path);

/// Whether the value is the word, without quotes.
bool is_automatic(const Value& value);

/// The value at the dotted path below `root`, or null.
Value* find_path(Value& root, std::string_view path);
/// Puts a value there, in place of what there is. The maps above it must be there.
void set_path(Value& root, std::string_view path, Value value);

}  // namespace composer
