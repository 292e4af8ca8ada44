// Time that algorithms spend in their hooks, taken from the ranges that the engine opens by their
// names.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <string>
#include <vector>

namespace composer {

/// Measures while it lives, one at a time; without algorithms it costs nothing. Work that a GPU
/// still has to do is not in it.
class HookTimer {
 public:
  explicit HookTimer(const std::vector<std::string>& algorithms);
  ~HookTimer();
  HookTimer(const HookTimer&) = delete;
  HookTimer& operator=(const HookTimer&) = delete;

  void reset();
  /// By algorithm, since reset().
  const std::map<std::string, double>& seconds() const;

 private:
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace composer
