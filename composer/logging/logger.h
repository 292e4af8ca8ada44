// Collects the values of a run: hooks log values by name, the loop closes records, and sinks write
// them some steps later.
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "composer/logging/records.h"
#include "composer/logging/sink_thread.h"

namespace composer {

/// Logs values without waiting for the device: tensors are copied asynchronously, and a later
/// write() gives them to the sinks.
class Logger {
 public:
  /// The most seconds that the run waits for slow sinks.
  struct Waits {
    double flush = 5;  ///< at the start and at each checkpoint
    double end = 10;   ///< at the end, which includes the time that programs get to exit
  };
  Logger() = default;
  explicit Logger(Waits waits) : waits_(waits) {}

  void add(std::shared_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }
  /// Opens the sinks. From here on sinks that are not in the loop have their own threads; before,
  /// records reach them at once. Throws exceptions of sinks in the loop, and a UserError of any
  /// sink.
  void open(const RunInfo& info);

  /// Tells the sinks of progress, at once.
  void progress(const Progress& progress);

  /// Adds a value to the open record. A name logged twice keeps the last value.
  void log(std::string name, double value);
  /// `value`: one number; on the run's device it is read later, so it must not be changed in place.
  void log(std::string name, at::Tensor value);

  /// Adds images to the open record. images: uint8 [N, H, W, C] with C 1 or 3, on any device; they
  /// may change afterwards. captions: none, or one per image.
  void log_images(std::string name, const at::Tensor& images,
                  std::vector<std::string> captions = {});

  /// Adds a histogram of a tensor on any device to the open record.
  void log_histogram(std::string name, const at::Tensor& numbers);

  /// Closes the open record; does nothing if it is empty.
  void commit(std::string_view event, const Timestamp& time);
  /// The number of closed records.
  int64_t commits() const { return commits_; }

  /// Starts to copy committed records from the device, and gives the sinks the records of the
  /// previous write().
  void write();
  /// Gives the sinks all committed records. Waits for the device, and some seconds for sinks with
  /// threads.
  void flush();
  /// Tells the sinks that the run is over, and ends their threads; threads of sinks that do not
  /// answer for some seconds are detached. Does nothing the second time, or without open(). Logs
  /// all errors.
  void close(const RunEnd& end) noexcept;

  /// The shortest histogram interval of the sinks; 0 if none wants histograms.
  Time histogram_interval(const RunLength& run_length) const;
  const std::vector<std::shared_ptr<LogSink>>& sinks() const { return sinks_; }

 private:
  using Value = std::variant<double, at::Tensor>;
  struct PendingImages {
    std::string name;
    at::Tensor pixels;  ///< uint8 [N, H, W, C] on the CPU; the copy may be under way if `from` is
                        ///< not the CPU
    std::vector<std::string> captions;
    at::Device from;
  };
  struct Pending {
    std::string_view event;
    Timestamp time;
    std::vector<std::pair<std::string, Value>> values;
    std::vector<PendingImages> images;
    std::vector<std::pair<std::string, at::Tensor>> histograms;  ///< as spread() returns them
  };
  struct Copy {
    std::vector<Pending> records;
    at::Tensor numbers;          ///< float64 on the CPU: the tensors' values in order
    std::shared_ptr<void> done;  ///< a device event, or null
  };

  void put(std::string name, Value value);
  /// Gives `item` to each sink in the loop, and puts it into the queues of the others.
  void give(const SinkThread::Item& item);
  void deliver(PendingImages images, const Timestamp& time);
  void deliver_histogram(std::string name, const Timestamp& time, const double* numbers);
  Copy start_copy();
  void deliver(Copy copy);
  /// Delivers the oldest copy. It counts as delivered even if a sink throws.
  void deliver_first();

  Waits waits_;
  std::vector<std::shared_ptr<LogSink>> sinks_;
  std::vector<LogSink*> direct_;  ///< sinks in the loop, from open() on
  /// Threads of the other sinks, from open() on.
  std::vector<std::unique_ptr<SinkThread>> threads_;
  bool opened_ = false;
  Pending open_;
  int64_t commits_ = 0;
  std::vector<Pending> committed_;
  std::deque<Copy> in_flight_;
};

/// The number of bins of a histogram.
inline constexpr int64_t spread_parts = 30;
/// Sizes of a histogram's tensor: min, max, count, sum and sum of squares; then the counts of the
/// bins.
inline constexpr int64_t spread_summary = 5, spread_numbers = spread_summary + spread_parts;

/// The histogram of `numbers` with equally wide bins, as float64 [spread_numbers] on their device,
/// without waiting for the device. Numbers that are not finite count as 0. numbers: not empty.
at::Tensor spread(const at::Tensor& numbers);

}  // namespace composer
