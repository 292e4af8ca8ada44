// Notices a training loss that is not finite.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "composer/logging/log_sink.h"

namespace composer {

/// Sees what the logger writes, so that no step waits for the device: a bad loss is known some
/// batches late, unless see() was told of it before.
class LossGuard : public LogSink {
 public:
  struct Bad {
    Timestamp time;  ///< after the batch
    double loss;
  };

  /// tolerated: how many such batches in a row are let pass, which loss scaling may need.
  explicit LossGuard(int64_t tolerated) : tolerated_(tolerated) {}

  /// A batch's loss, where reading it waits for nothing. Batches are seen in order, each once.
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

  /// The batch whose loss was one too many; nothing on later calls.
  std::optional<Bad> take() { return std::exchange(bad_, std::nullopt); }

 private:
  int64_t tolerated_, in_a_row_ = 0;
  int64_t last_ = -1;  ///< the batch that was seen last
  bool told_ = false;
  std::optional<Bad> bad_;
};

}  // namespace composer
