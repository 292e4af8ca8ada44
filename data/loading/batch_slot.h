// A batch in the making, and the tasks that it is cut into.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "base/loading/image_size.h"
#include "data/loading/batch_arrays.h"
#include "data/samples/order.h"

namespace composer {

/// A batch, or a rank's slice of it. What opens it fills in the first part, which then stays as it
/// is but for what lies in the arrays; the rest is the queue's (data/loading/slot_queue.h).
struct BatchSlot {
  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

  int64_t epoch = 0;
  int64_t first = 0;  ///< position of its first sample in the epoch
  int64_t samples = 0;
  int64_t sequence = 0;  ///< of its first sample (data/loading/sample_cursor.h)
  ImageSize size;
  EpochOrder order;
  BatchArrays arrays;

  std::atomic<int64_t> taken{0};     ///< places before it are some task's
  std::atomic<int64_t> done{0};      ///< images of finished tasks
  std::atomic<bool> dropped{false};  ///< nobody waits for it any more
  std::atomic<bool> lost{false};     ///< one of its samples cannot be had: the run ends with that
  int64_t failed_at = kNowhere;      ///< the lowest place that failed
  std::exception_ptr failure = {};   ///< of that place
  std::set<int64_t> bad = {};        ///< places of samples that were skipped
};

/// Some consecutive images of a draft: a thread's unit of work.
struct Task {
  std::shared_ptr<BatchSlot> draft = {};
  int64_t begin = 0;
  int64_t end = 0;
  int64_t failed_at = BatchSlot::kNowhere;
  std::exception_ptr failure = {};
  std::vector<int64_t> bad = {};
};

}  // namespace composer
