// Counts copies that change a tensor's type or layout: they cost memory traffic and calculate
// nothing.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>

namespace composer {

/// Counts conversions in all threads while it lives; only one may live. to(), contiguous() and
/// autocast's casts end in a copy. A copy of more than one element counts if it changes the type,
/// or the order in memory. Conversions inside a library's operators are not seen. Slows every
/// operator.
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
