// Errors that end a run. The library throws; only composer::main prints.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.h"

namespace composer {

/// The user's input is wrong (recipe, command line, files): exit status 2. Holds one line for each
/// problem, each naming the file, line or key and what would be right.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::string problem)
      : UserError(std::vector<std::string>{std::move(problem)}) {}
  explicit UserError(std::vector<std::string> problems)
      : std::runtime_error(joined(problems, "\n")), problems_(std::move(problems)) {}

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// The run failed though its input was acceptable (a worker's error, a full disk): exit status 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A tensor needs more memory than there is.
class OutOfMemory : public RunError {
 public:
  using RunError::RunError;
};

/// Another rank has ended, or does not answer. That rank reports the cause.
class LostRankError : public RunError {
 public:
  using RunError::RunError;
};

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
