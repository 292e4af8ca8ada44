// A logger that writes event files for TensorBoard.
#pragma once

#include <map>
#include <string>

#include "base/params/params.h"
#include "composer/logging/growing_file.h"
#include "composer/logging/log_sink.h"

namespace composer {

/// Writes <run>/tensorboard/: every value as a scalar over batches, images, histograms, and the
/// recipe as a text and as hyperparameters. A resumption removes events of later batches from the
/// files of earlier processes. Does nothing for a run without a folder.
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
  /// The wall time of `time`, in seconds since 1970.
  double wall_time(const Timestamp& time) const;

  Params params_;
  GrowingFile file_;
  bool kept_ = false;  ///< the run has a folder
  double began_ = 0;   ///< wall time of this process's first batch, less its time.seconds
  int64_t last_batch_ = 0;
  std::map<std::string, int64_t> last_step_;  ///< the last step of each tag: an epoch's last batch
                                              ///< has two records with the same tags
};

}  // namespace composer
