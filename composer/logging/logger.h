// Where values go: hooks log by name, the loop closes records, sinks write them some steps late.
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "composer/logging/log_sink.h"
#include "composer/logging/sink_thread.h"

namespace composer {

/// Collects values without waiting for the device: tensors stay there until a later write() finds
/// them copied.
class Logger {
 public:
  /// Seconds that the run waits at most for slow sinks.
  struct Waits {
    double flush = 5;  ///< at its start and at each checkpoint
    double end = 10;   ///< at its end; some of it is for programs to end by themselves
  };
  Logger() = default;
  explicit Logger(Waits waits) : waits_(waits) {}

  void add(std::shared_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }
  /// From here on sinks that are not in the loop have threads of their own; before, records reach
  /// them at once. Throws what a sink in the loop throws, and a UserError of any.
  void open(const RunInfo& info);

  /// Reaches the sinks at once.
  void progress(const Progress& progress);

  /// Adds to the record now open. A name logged twice keeps the last value.
  void log(std::string name, double value);
  /// `value`: one number; on the run's device it is read later, so it must not be changed in place.
  void log(std::string name, at::Tensor value);

  /// Adds pictures to the record now open. images: uint8 [N, H, W, C] of 3 channels or 1, on any
  /// device; they may be changed afterwards. captions: none, or one an image.
  void log_images(std::string name, const at::Tensor& images,
                  std::vector<std::string> captions = {});

  /// Adds how the numbers of a tensor on any device are spread.
  void log_histogram(std::string name, const at::Tensor& numbers);

  /// Closes the open record. Nothing happens when nothing was logged.
  void commit(std::string_view event, const Timestamp& time);
  /// How many records were closed.
  int64_t commits() const { return commits_; }

  /// Starts copying what was committed, and gives the sinks what the write() before this one
  /// copied.
  void write();
  /// Gives the sinks everything committed so far; waits for the device, and some seconds for sinks
  /// with threads to write it.
  void flush();
  /// Tells the sinks that the run is over, and ends their threads: those of sinks that do not
  /// answer for some seconds are left alone. Does nothing the second time, or without open(). All
  /// errors are reported.
  void close(const RunEnd& end) noexcept;

  /// How often the sink that wants them most often wants histograms.
  Time histogram_interval(const RunLength& run_length) const;
  const std::vector<std::shared_ptr<LogSink>>& sinks() const { return sinks_; }

 private:
  using Value = std::variant<double, at::Tensor>;
  struct PendingImages {
    std::string name;
    at::Tensor pixels;  ///< uint8 [N, H, W, C] on the CPU, not there yet where `from` is a device
    std::vector<std::string> captions;
    at::Device from;
  };
  struct Pending {
    std::string_view event;
    Timestamp time;
    std::vector<std::pair<std::string, Value>> values;
    std::vector<PendingImages> images;
    std::vector<std::pair<std::string, at::Tensor>> histograms;  ///< as log_histogram computes them
  };
  struct Copy {
    std::vector<Pending> records;
    at::Tensor numbers;          ///< float64 on the CPU: the tensors' values in order
    std::shared_ptr<void> done;  ///< a device event, or null
  };

  void put(std::string name, Value value);
  /// Calls `give` for each sink in the loop, and puts `item` into the queues of the others.
  void give(const SinkThread::Item& item, const std::function<void(LogSink&)>& give);
  void deliver(PendingImages images, const Timestamp& time);
  void deliver_histogram(std::string name, const Timestamp& time, const double* numbers);
  Copy start_copy();
  void deliver(Copy copy);
  /// What a sink throws on is not offered again.
  void deliver_first();

  Waits waits_;
  std::vector<std::shared_ptr<LogSink>> sinks_;
  std::vector<LogSink*> direct_;                      ///< from open() on: those in the loop
  std::vector<std::unique_ptr<SinkThread>> threads_;  ///< from open() on: of the others
  bool opened_ = false;
  Pending open_;
  int64_t commits_ = 0;
  std::vector<Pending> committed_;
  std::deque<Copy> in_flight_;
};

}  // namespace composer
