// Event files that TensorBoard opens.
#pragma once

#include <map>
#include <string>

#include "base/params/params.h"
#include "composer/logging/growing_file.h"
#include "composer/logging/log_sink.h"

namespace composer {

/// <run>/tensorboard/: every value as a scalar over batches, pictures, histograms, and the recipe
/// as a text and as hyperparameters. A resumption takes what stands there of later batches out of
/// the files of the processes before. Does nothing for a run that leaves nothing on the disk.
class TensorBoard : public LogSink {
 public:
  struct Params {
    Time histograms{0, TimeUnit::batch};
    void fields(auto&& f) {
      f("histograms", histograms,
        "how often to draw those of all weights and gradients, in ep, ba or sp; 0 = never");
    }
    std::string check() const { return check_interval("histograms", histograms); }
  };
  explicit TensorBoard(Params params) : params_(params) {}

  std::string name() const override { return "tensorboard"; }
  Time histogram_interval() const override { return params_.histograms; }
  void open(const RunInfo& info) override;
  void write(const Record& record) override;
  void write_images(const ImageRecord& record) override;
  void write_histogram(const HistogramRecord& record) override;
  void flush() override;
  void run_end(const RunEnd& end) override;

 private:
  void add(const std::string& event);
  /// Seconds since 1970 at which that was.
  double wall_time(const Timestamp& time) const;

  Params params_;
  GrowingFile file_;
  bool kept_ = false;  ///< the run leaves something on the disk
  double began_ = 0;   ///< wall time of this process's first batch, less its time.seconds
  int64_t last_batch_ = 0;
  std::map<std::string, int64_t> last_step_;  ///< of each tag: an epoch's last batch has both
};

}  // namespace composer
