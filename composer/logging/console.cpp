#include "composer/logging/console.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <stop_token>

#include "base/clock.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/terminal.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// Seconds after which a wait for the first batch is logged if there is no progress bar.
constexpr double short_wait = 3;

struct ShownMetric {
  const char *name, *label;
};
constexpr ShownMetric training_metrics[] = {{"metrics/train/Accuracy", "accuracy "},
                                            {"metrics/train/MAE", "mean error "}};
constexpr ShownMetric evaluation_metrics[] = {{"mAP", "mAP "},
                                              {"Accuracy", "accuracy "},
                                              {"CrossEntropy", "cross-entropy "},
                                              {"BinaryCrossEntropy", "cross-entropy "},
                                              {"MAE", "mean error "},
                                              {"R2", "R2 "}};

/// The evaluation sets of the record's values: val_dataset first, the others in their order.
std::vector<std::string> sets_of(const Record& record) {
  std::vector<std::string> sets;
  for (const auto& [name, value] : record.values)
    if (const std::string set(evaluation_set(name));
        !set.empty() && std::ranges::find(sets, set) == sets.end())
      sets.insert(set == main_evaluation ? sets.begin() : sets.end(), set);
  return sets;
}

constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

/// Prints a line after `delay` seconds and then every `interval`, until it is stopped.
void tell_of_wait(const std::stop_token& stop, double delay, double interval) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  const double begin = steady_seconds();
  for (double pause = delay;; pause = interval) {
    never.wait_for(lock, stop, std::chrono::duration<double>(pause), [] { return false; });
    if (stop.stop_requested()) return;
    log::info("waiting for the first batch (" + clock_text(steady_seconds() - begin) + ")");
  }
}

}  // namespace

ConsoleSink::ConsoleSink(Params params)
    : bar_(params.progress_bar && isatty(STDERR_FILENO) == 1),
      line_interval_(params.line_interval),
      draw_interval_(params.draw_interval),
      printed_(steady_seconds()) {}

ConsoleSink::~ConsoleSink() { ConsoleSink::flush(); }

void ConsoleSink::open(const RunInfo& info) {
  run_length_ = info.run_length;
  last_ = epoch_begin_ = info.start;
  for (const auto& line : info.header) log::info(line);
  printed_ = steady_seconds();
}

void ConsoleSink::write(const Record& record) {
  if (epoch_ && record.event != "eval") print_epoch();
  if (record.event == "epoch") {
    epoch_ = record;
  } else if (record.event == "eval") {
    eval_ = record;
    if (epoch_ || !bar_) print_epoch();
  } else {
    for (const auto& [name, value] : record.values) values_[name] = value;
  }
}

void ConsoleSink::progress(const Progress& progress) {
  end_wait();
  switch (progress.phase) {
    case Progress::Phase::waiting:
      return show_wait();
    case Progress::Phase::training:
      last_ = progress.time;
      if (is_due()) show_training();
      return;
    case Progress::Phase::evaluating:
      if (progress.done == 0) eval_begin_ = steady_seconds();
      if (is_due() || (bar_ && progress.done == progress.total)) show_evaluation(progress);
      return;
    case Progress::Phase::evaluated:
      if (bar_) log::status("");
  }
}

void ConsoleSink::flush() {
  end_wait();
  print_epoch();
  if (bar_) log::status("");
}

bool ConsoleSink::is_due() const {
  const double now = steady_seconds();
  return bar_ ? now - drawn_ >= draw_interval_ : now - printed_ >= line_interval_;
}

void ConsoleSink::show_wait() {
  if (bar_)
    log::status(first_columns("waiting for the first batch", terminal_columns()));
  else
    wait_ = std::jthread(tell_of_wait, std::min(short_wait, line_interval_), line_interval_);
}

void ConsoleSink::end_wait() {
  if (wait_.joinable()) wait_ = {};
}

void ConsoleSink::show(const std::string& name, double share,
                       const std::vector<std::string>& parts) {
  if (bar_) {
    log::status(progress_line(name, share, parts, terminal_columns()));
    drawn_ = steady_seconds();
    return;
  }
  std::string line = name + "  " + percent_text(share);
  for (const auto& part : parts) line += "  " + part;
  print(line);
}

void ConsoleSink::show_training() {
  const double share = run_length_.elapsed(last_);
  std::vector<std::string> parts;
  if (!bar_)
    parts.push_back("batch " + std::to_string(last_.batch_in_epoch) + "/" +
                    std::to_string(run_length_.batches_per_epoch));
  if (const auto loss = values_.find("loss/train"); loss != values_.end())
    parts.push_back("loss " + number_text(loss->second, 4));
  const auto estimate = values_.find("wall_clock/remaining_estimate");
  if (estimate != values_.end())
    parts.push_back(clock_text(estimate->second) + " left");
  else if (share > 0)
    parts.push_back(clock_text(last_.seconds * (1 - share) / share) + " left");
  for (const auto& [name, label] : training_metrics)
    if (const auto value = values_.find(name); value != values_.end())
      parts.push_back(label + number_text(value->second, 4));
  if (const auto images = speed(last_)) parts.push_back(*images);
  show(epoch_name(last_.epoch + 1), share, parts);
}

void ConsoleSink::show_evaluation(const Progress& progress) {
  const double share = std::min(1.0, static_cast<double>(progress.done) /
                                         static_cast<double>(std::max(progress.total, int64_t{1})));
  std::vector<std::string> parts{"batch " + std::to_string(progress.done) + "/" +
                                 std::to_string(progress.total)};
  const double seconds = steady_seconds() - eval_begin_;
  if (share > 0) parts.push_back(clock_text(seconds * (1 - share) / share) + " left");
  const bool main = progress.set.empty() || progress.set == main_evaluation;
  show(main ? "eval" : "eval " + progress.set, share, parts);
}

std::string ConsoleSink::epoch_name(int64_t epoch) const {
  const auto name = "epoch " + std::to_string(epoch);
  if (run_length_.max_duration.unit != TimeUnit::epoch) return name;
  return name + "/" + std::to_string(static_cast<int64_t>(run_length_.max_duration.value));
}

std::optional<std::string> ConsoleSink::speed(const Timestamp& now) const {
  const double seconds = now.seconds - epoch_begin_.seconds;
  if (seconds <= 0) return std::nullopt;
  return number_text(static_cast<double>(now.sample - epoch_begin_.sample) / seconds, 0) +
         " images/s";
}

void ConsoleSink::print_epoch() {
  if (!epoch_ && !eval_) return;
  const auto& time = epoch_ ? epoch_->time : eval_->time;
  std::vector<std::string> parts{epoch_ ? epoch_name(time.epoch)
                                        : "batch " + std::to_string(time.batch)};
  const auto add = [&](const std::optional<Record>& record, const std::string& name,
                       const std::string& label) {
    if (!record) return;
    for (const auto& [key, value] : record->values)
      if (key == name) parts.push_back(label + number_text(value, 4));
  };
  if (const auto loss = values_.find("loss/train"); epoch_ && loss != values_.end())
    parts.push_back("loss " + number_text(loss->second, 4));
  for (const auto& [name, label] : training_metrics) add(epoch_, name, label);
  const size_t evaluation = eval_ ? parts.size() : 0;
  for (const auto& set : eval_ ? sets_of(*eval_) : std::vector<std::string>())
    for (const auto& [name, label] : evaluation_metrics)
      add(eval_, "metrics/" + set + "/" + name, set + " " + label);
  if (epoch_) {
    if (const auto images = speed(time)) parts.push_back(*images);
    parts.push_back(clock_text(time.seconds));
    epoch_begin_ = eval_ ? eval_->time : time;
  }
  print(parts_that_fit(parts, bar_ ? terminal_columns() : unlimited, evaluation));
  epoch_.reset();
  eval_.reset();
}

void ConsoleSink::print(const std::string& line) {
  log::info(line);
  printed_ = steady_seconds();
}

}  // namespace composer
