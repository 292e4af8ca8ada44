// The interface of loggers.
#pragma once

#include <string>

#include "composer/logging/records.h"

namespace composer {

/// A destination of records, in order of time. An exception of these functions is logged once and
/// does not end the run; the lost item is not offered again. Exceptions of sinks in the loop, and a
/// UserError of open(), end the run.
class LogSink {
 public:
  virtual ~LogSink() = default;

  /// The name in messages.
  virtual std::string name() const { return "a logger"; }
  /// Whether the training loop itself calls the sink and waits for it. Every other sink has its own
  /// thread, which may be behind the run.
  virtual bool in_loop() const { return false; }
  /// The interval of histograms of weights and gradients, in ep, ba or sp; 0 = never.
  virtual Time histogram_interval() const { return {0, TimeUnit::batch}; }

  /// Called again later if it throws anything but UserError.
  virtual void open(const RunInfo&) {}
  virtual void write(const Record& record) = 0;
  /// Called before write() of the record that the images were logged with.
  virtual void write_images(const ImageRecord&) {}
  virtual void write_histogram(const HistogramRecord&) {}
  /// Called after every batch for a sink in the loop, before the batch's record: it must be cheap.
  /// Called for other sinks at once at every new phase, else with their records and at most ten
  /// times a second.
  virtual void progress(const Progress&) {}
  /// Called after each group of records, at checkpoints, and before run_end().
  virtual void flush() {}
  /// Called once at the end of every run, after summary.json is written, if the sink was opened.
  virtual void run_end(const RunEnd&) {}
};

}  // namespace composer
