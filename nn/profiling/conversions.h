// Copies that change a tensor's type or layout, which cost memory traffic and calculate nothing.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>

namespace composer {

/// Counts conversions while it lives, in all threads; one at a time. to(), contiguous() and
/// autocast's casts end in a copy, which counts where it has more than one number and either
/// changes their type, or fills its memory in another order than the source does. What a library
/// rearranges within an operator is not seen. Slows every operator.
class ConversionCounter {
 public:
  ConversionCounter();
  ~ConversionCounter();
  ConversionCounter(const ConversionCounter&) = delete;
  ConversionCounter& operator=(const ConversionCounter&) = delete;

  int64_t count() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace composer
