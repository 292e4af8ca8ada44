// Detects training losses that are not finite.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "composer/logging/log_sink.h"

namespace composer {

/// Checks the losses that the logger writes, so that no step waits for the device. A bad loss is
/// known some batches later, unless see() was called with it before.
class LossGuard : public LogSink {
 public:
  struct Bad {
    Timestamp time;  ///< after the batch
    double loss;
  };

  /// tolerated: the number of bad batches in a row that are ignored, which loss scaling may need.
  explicit LossGuard(int64_t tolerated) : tolerated_(tolerated) {}

  /// Checks a batch's loss, if reading it does not wait for the device. Batches come in ascending
  /// order; a second call for a batch does nothing.
  void see(const Timestamp& time, double loss) {
    if (time.batch <= last_) return;
    last_ = time.batch;
    in_a_row_ = std::isfinite(loss) ? 0 : in_a_row_ + 1;
    if (in_a_row_ > tolerated_ && !std::exchange(told_, true)) bad_ = {time, loss};
  }

  bool in_loop() const override { return true; }
  void write(const Record& record) override {
    for (const auto& [name, value] : record.values)
      if (name == "loss/train") see(record.time, value);
  }

  /// The batch with the first bad loss that is not tolerated; nothing on later calls.
  std::optional<Bad> take() { return std::exchange(bad_, std::nullopt); }

 private:
  int64_t tolerated_, in_a_row_ = 0;
  int64_t last_ = -1;  ///< the last checked batch
  bool told_ = false;
  std::optional<Bad> bad_;
};

}  // namespace composer
