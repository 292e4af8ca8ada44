// Moves batches from a loader to the network.
#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "composer/loop/engine.h"
#include "composer/loop/loader.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/network/objective.h"

namespace composer {

/// Calls loader.next() in the profiler's range "dataloader".
std::optional<RawBatch> next_batch(Loader& loader);

/// A loader's batches on the run's device, one after another.
class Feed {
 public:
  /// objective: checks each batch before it is copied. Loader and objective outlive this object.
  Feed(Loader& loader, at::Device device, const Objective& objective)
      : loader_(loader), device_(device), objective_(objective) {}

  /// The loader's next batch; nothing at the end of an epoch. Throws exceptions of the loader and
  /// of Objective::check.
  std::optional<RawBatch> next();

  /// Prefetches the batch of the next call of next(), and begins to copy it while the device
  /// computes. Does nothing on the CPU.
  void fetch_ahead();

  /// Seconds spent in waiting for the loader.
  double waited() const { return waited_; }

 private:
  /// The result of a prefetch.
  struct Ahead {
    std::optional<RawBatch> batch;  ///< tensors that are being uploaded are undefined
    std::vector<std::optional<Upload>> uploads{};
    std::exception_ptr error{};
  };

  std::optional<RawBatch> fetch();

  Loader& loader_;
  at::Device device_;
  const Objective& objective_;
  std::optional<Ahead> ahead_;
  double waited_ = 0;
};

/// The type of the network's input images: the type of autocast if only convolutions read the
/// images and no algorithm listens to an event from `first` to `last`; else float32. On the CPU
/// always float32.
at::ScalarType input_type(const Engine& engine, const State& state, ImageSize size,
                          int64_t channels, Event first, Event last);

/// The normalised batch, in the run's memory format. batch: on the run's device.
Batch normalized(const RawBatch& batch, const Normalization& normalization, const State& state,
                 at::ScalarType type = at::kFloat);

}  // namespace composer
