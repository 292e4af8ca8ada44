// A logger that writes event files for TensorBoard: their records, and the events in them.
// Field numbers are those of tensorboard/compat/proto/{event,summary,tensor}.proto.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/protobuf.h"
#include "base/params/params.h"
#include "composer/logging/growing_file.h"
#include "composer/logging/records.h"

namespace composer {

/// A record in the file's format: length, data and their checksums.
std::string event_record(std::string_view data);

/// The data of the records from the beginning of a file to the first cut or damaged one. The views
/// point into `file`.
std::vector<std::string_view> event_records(std::string_view file);

/// The first record of a file.
std::string first_event(double wall_time);

/// An event of values, which the functions below make. wall_time: seconds since 1970; step:
/// batches.
std::string summary_event(double wall_time, int64_t step,
                          const std::vector<ProtobufMessage>& values);

ProtobufMessage scalar_value(std::string_view tag, double value);
ProtobufMessage text_value(std::string_view tag, std::string_view markdown);
/// All images of a record under one tag; its description has their captions.
ProtobufMessage images_value(const ImageRecord& record);

/// The facts that decide whether a resumption keeps an event.
struct EventPlace {
  int64_t step = 0;
  std::vector<std::string_view> tags;  ///< views into the event
};
EventPlace place_of_event(std::string_view event);

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
