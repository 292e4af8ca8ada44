// Where a run's values go.
#pragma once

#include <string>

#include "composer/logging/records.h"

namespace composer {

/// A destination of records, in order of time. What one of these functions throws is reported once
/// and does not end the run; what it was given then is not offered again. But for sinks in the
/// loop, and a UserError of open(): these end it.
class LogSink {
 public:
  virtual ~LogSink() = default;

  /// For messages.
  virtual std::string name() const { return "a logger"; }
  /// Whether the training loop itself calls it, and waits for it. All others are served by a thread
  /// each, which may be behind the run.
  virtual bool in_loop() const { return false; }
  /// How often it wants histograms of weights and gradients, in ep, ba or sp; 0 = never.
  virtual Time histogram_interval() const { return {0, TimeUnit::batch}; }

  /// What it throws, but for UserError, is tried again later.
  virtual void open(const RunInfo&) {}
  virtual void write(const Record& record) = 0;
  /// Before the record that they were logged with.
  virtual void write_images(const ImageRecord&) {}
  virtual void write_histogram(const HistogramRecord&) {}
  /// A sink in the loop is told after every batch, whose record comes later: it must cost next to
  /// nothing. Others are told of every phase at once, and with their records of at most ten batches
  /// a second.
  virtual void progress(const Progress&) {}
  /// After each group of records, at checkpoints, and before run_end().
  virtual void flush() {}
  /// The run is over, in whatever way. Called once, if open() was, after summary.json is written.
  virtual void run_end(const RunEnd&) {}
};

}  // namespace composer
