// The way of a batch from a loader to the network.
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

/// loader.next(), in the profiler's range "dataloader".
std::optional<RawBatch> next_batch(Loader& loader);

/// A loader's batches on the run's device, one after another.
class Feed {
 public:
  /// Loader and objective, which checks each batch before it is copied, outlive it.
  Feed(Loader& loader, at::Device device, const Objective& objective)
      : loader_(loader), device_(device), objective_(objective) {}

  /// The loader's next one, which is copied beside what the device computes; nothing at the end of
  /// an epoch. Throws what the loader or Objective::check threw.
  std::optional<RawBatch> next();

  /// Fetches what the next call of next() will give, and begins to copy it: while the device
  /// computes what was queued. On the CPU it does nothing, as there would be nothing to gain.
  void fetch_ahead();

  /// Seconds in which the loader was waited for.
  double waited() const { return waited_; }

 private:
  /// What came of fetching it.
  struct Ahead {
    std::optional<RawBatch> batch;  ///< its tensors undefined where they are on their way
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

/// The type in which a network may be given its images: that to which autocast rounds them, where
/// only convolutions read them and no algorithm sees them before, listening to an event from
/// `first` to `last`; else float32. On the CPU, where it spares nothing, float32.
at::ScalarType input_type(const Engine& engine, const State& state, ImageSize size,
                          int64_t channels, Event first, Event last);

/// `batch`, which is on the run's device, in the run's memory format.
Batch normalized(const RawBatch& batch, const Normalization& normalization, const State& state,
                 at::ScalarType type = at::kFloat);

}  // namespace composer
