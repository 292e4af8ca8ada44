// Where values go: hooks log by name, the loop closes records, sinks write them some steps late.
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "composer/logging/images.h"
#include "composer/time.h"

namespace composer {

/// What was logged at one place of the run.
struct Record {
  std::string_view event;  ///< "batch", "epoch", "eval" or "save"
  Timestamp time;          ///< after the batch or epoch
  std::vector<std::pair<std::string, double>> values;
};

/// What a sink is told when the run starts.
struct RunInfo {
  std::filesystem::path folder;  ///< empty for a run that leaves nothing on the disk
  std::string run_name;
  Schedule schedule;
  Timestamp start;  ///< all zero for a fresh run; a sink drops what it holds of later batches ...
  bool start_evaluated =
      true;  ///< ... and, where false, an evaluation after the last of these: it is repeated
  std::vector<std::string> header;  ///< lines for people: what the run is
};

/// What goes on between records.
struct Progress {
  /// waiting: for the process's first batch. evaluated: whole or not.
  enum class Phase { waiting, training, evaluating, evaluated };
  Phase phase;
  Timestamp time;               ///< what has been trained
  int64_t done = 0, total = 0;  ///< batches of the evaluation
};

/// A destination of records, in order of time.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void open(const RunInfo&) {}
  virtual void write(const Record& record) = 0;
  /// Before the record that they were logged with.
  virtual void write_images(const ImageRecord&) {}
  /// Called after every batch, whose record comes later: it must cost next to nothing.
  virtual void progress(const Progress&) {}
  virtual void flush() {}
};

/// Collects values without waiting for the device: tensors stay there until a later write() finds
/// them copied.
class Logger {
 public:
  void add(std::shared_ptr<LogSink> sink) { sinks_.push_back(std::move(sink)); }
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

  /// Closes the open record. Nothing happens when nothing was logged.
  void commit(std::string_view event, const Timestamp& time);

  /// Starts copying what was committed, and gives the sinks what the write() before this one
  /// copied.
  void write();
  /// Gives the sinks everything committed so far; waits for the device.
  void flush();

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
  };
  struct Copy {
    std::vector<Pending> records;
    at::Tensor numbers;          ///< float64 on the CPU: the tensors' values in order
    std::shared_ptr<void> done;  ///< a device event, or null
  };

  void put(std::string name, Value value);
  void deliver(PendingImages images, const Timestamp& time);
  Copy start_copy();
  void deliver(Copy copy);
  /// What a sink throws on is not offered again.
  void deliver_first();

  std::vector<std::shared_ptr<LogSink>> sinks_;
  Pending open_;
  std::vector<Pending> committed_;
  std::deque<Copy> in_flight_;
};

}  // namespace composer
