// What went wrong with a store, as opposed to what lies in it.
#pragma once

#include "base/error.h"

namespace composer {

/// The bytes could not be had. It says nothing about the sample that they belong to: a run ends
/// with it, whatever is to be done about bad samples.
class RemoteError : public RunError {
 public:
  using RunError::RunError;
};

/// The bytes came, and are not what they should be: asking once more does not help.
class WrongBytes : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace composer
