// What an exception says, for people.
#pragma once

#include <exception>
#include <string>

namespace composer {

/// Its words; LibTorch's without the stack. exception: not null.
std::string text_of(const std::exception_ptr& exception);

}  // namespace composer
