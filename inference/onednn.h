// LibTorch operators that have no C++ function, found by name.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string_view>

namespace composer {

/// Function: the type of the operator's kernel. Throws c10::Error if LibTorch has no operator of
/// that name and type.
template <class Function>
c10::TypedOperatorHandle<Function> find_operator(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Function>();
}

using OptionalScalars = c10::List<std::optional<at::Scalar>>;
using OptionalText = std::optional<std::string_view>;

}  // namespace composer
