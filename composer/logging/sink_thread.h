// A thread that serves one sink, so that training does not wait for a slow disk or a dead program.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <variant>

#include "composer/logging/records.h"

namespace composer {

/// Items go into a queue of bounded size. Records that exceed it are dropped; a warning at the end
/// tells their number. To be used by one thread.
class SinkThread {
 public:
  struct Limits {
    size_t bytes = 64 << 20;    ///< approximate size of the queue
    double reopen_seconds = 5;  ///< between two attempts of an open() that fails
  };

  explicit SinkThread(std::shared_ptr<LogSink> sink) : SinkThread(std::move(sink), Limits()) {}
  SinkThread(std::shared_ptr<LogSink> sink, Limits limits);
  /// Waits some seconds for the sink to finish, then detaches its thread.
  ~SinkThread();
  SinkThread(const SinkThread&) = delete;
  SinkThread& operator=(const SinkThread&) = delete;

  struct Flush {};
  struct Stop {};
  using Item =
      std::variant<RunInfo, std::shared_ptr<const Record>, std::shared_ptr<const ImageRecord>,
                   std::shared_ptr<const HistogramRecord>, Progress, Flush, RunEnd, Stop>;

  /// Calls the function of `sink` that `item` is for.
  static void give(const Item& item, LogSink& sink);

  /// Adds an item to the queue, without waiting. The sink gets it once wake() or wait() is called,
  /// or when the queue has grown by much.
  void put(Item item);
  void wake();

  /// Waits until the sink has handled all items, at most until `deadline` on the steady clock: then
  /// it warns, once. Throws the UserError of open(). After a missed deadline it does not wait again
  /// until the sink has caught up, unless `patient`.
  void wait(double deadline, bool patient = false);

 private:
  struct Shared;
  bool is_told_of(const Progress& progress);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  Progress::Phase phase_ = Progress::Phase::evaluated;
  double told_ = 0;  ///< steady-clock seconds
  bool behind_ = false, warned_ = false;
};

}  // namespace composer
