// Errors of a store itself, as opposed to errors in its objects.
#pragma once

#include "base/error.h"

namespace composer {

/// The bytes could not be read. The error says nothing about the sample that they belong to: it
/// ends a run, whatever on_bad_sample is.
class RemoteError : public RunError {
 public:
  using RunError::RunError;
};

/// The bytes came, but are wrong: another request does not help.
class WrongBytes : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace composer
