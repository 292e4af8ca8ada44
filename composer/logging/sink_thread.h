// A thread that serves one sink, so that nobody waits for a slow disk or a dead program.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <variant>

#include "composer/logging/log_sink.h"

namespace composer {

/// What is given goes into a queue of bounded size. Records beyond it are dropped, and counted in a
/// warning at the end. To be used by one thread.
class SinkThread {
 public:
  struct Limits {
    size_t bytes = 64 << 20;    ///< of what waits, about
    double reopen_seconds = 5;  ///< between two tries of an open() that fails
  };

  explicit SinkThread(std::shared_ptr<LogSink> sink) : SinkThread(std::move(sink), Limits()) {}
  SinkThread(std::shared_ptr<LogSink> sink, Limits limits);
  /// Waits some seconds for the sink to end its work, and then leaves it alone.
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

  /// Never waits. The sink gets it once wake() or wait() is called, or when much has come together.
  void put(Item item);
  void wake();

  /// Waits until the sink has got everything, but not beyond this moment of the steady clock: then
  /// it warns, once. Throws the UserError that open() ended with. A sink that did not keep up is
  /// not waited for again before it has, unless `patient`.
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
