// The text of exceptions, for people.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace composer {

/// The exception's message, without LibTorch's stack trace. exception: not null.
std::string text_of(const std::exception_ptr& exception);

/// Rethrows the current exception with a message that begins with `component` ("algorithms.mixup")
/// and `where` ("batch_end"), unless the message names the component. A UserError stays a
/// UserError, other errors become a RunError; out-of-memory errors and classes derived from
/// UserError or RunError are rethrown unchanged.
[[noreturn]] void rethrow_of(const std::string& component, std::string_view where);

}  // namespace composer
