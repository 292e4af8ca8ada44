// What an exception says, for people.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace composer {

/// Its words; LibTorch's without the stack. exception: not null.
std::string text_of(const std::exception_ptr& exception);

/// Throws the exception that is being handled again, as one of `component` ("algorithms.mixup"), at
/// `place` ("batch_end"), where its words do not name the component. Wrong input stays a UserError,
/// all else becomes a RunError; a lack of memory, and kinds of either that somebody may ask for, go
/// on as they are.
[[noreturn]] void rethrow_of(const std::string& component, std::string_view place);

}  // namespace composer
