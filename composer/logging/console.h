// The progress of a run on standard error.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/params/params.h"
#include "composer/logging/records.h"

namespace composer {

/// Shows the run's header, a line per epoch, and a progress bar on a terminal; elsewhere a line at
/// intervals.
class ConsoleSink : public LogSink {
 public:
  struct Params {
    bool progress_bar = true;
    double line_interval = 30;
    double draw_interval = 0.1;
    void fields(auto&& f) {
      f("progress_bar", progress_bar, "show one, on a terminal, if the run's own key says so too");
      f("line_interval", line_interval,
        "seconds after which a line is due where there is no progress bar", at_least(0));
      f("draw_interval", draw_interval, "least seconds between two drawings of the bar",
        at_least(0));
    }
  };
  explicit ConsoleSink(Params params);
  ~ConsoleSink() override;

  /// Turns the progress bar off.
  void leave_out_bar() { bar_ = false; }

  std::string name() const override { return "console"; }
  bool in_loop() const override { return true; }
  void open(const RunInfo& info) override;
  void write(const Record& record) override;
  void progress(const Progress& progress) override;
  void flush() override;

 private:
  bool is_due() const;
  void show_wait();
  void end_wait();
  void show(const std::string& name, double share, const std::vector<std::string>& parts);
  void show_training();
  void show_evaluation(const Progress& progress);
  void print_epoch();
  void print(const std::string& line);
  std::string epoch_name(int64_t epoch) const;
  /// "1234 images/s" since the epoch's beginning; nothing before the first batch is done.
  std::optional<std::string> speed(const Timestamp& now) const;

  bool bar_;
  const double line_interval_, draw_interval_;
  RunLength run_length_;
  Timestamp last_, epoch_begin_;
  std::map<std::string, double> values_;         ///< the last logged value of each name
  std::optional<Record> epoch_, eval_;           ///< records that are not printed yet
  double drawn_ = 0, printed_, eval_begin_ = 0;  ///< steady-clock seconds
  std::jthread wait_;                            ///< logs a long wait for the first batch
};

}  // namespace composer
