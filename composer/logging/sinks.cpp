#include "composer/logging/sinks.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "composer/clock.h"
#include "composer/error.h"
#include "composer/logging/json_number.h"
#include "composer/network/metrics.h"
#include "composer/storage/atomic_file.h"

namespace composer {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

/// Whether a line of metrics.jsonl belongs to the part of the run that a resumption keeps.
bool is_kept(const nlohmann::ordered_json& entry, const RunInfo& info) {
  if (!entry.is_object()) return false;
  const auto batch = entry.value("batch", int64_t{0});
  const bool repeated =
      !info.start_evaluated && batch == info.start.batch && entry.value("event", "") == "eval";
  return batch <= info.start.batch && !repeated;
}

}  // namespace

void JsonlSink::open(const RunInfo& info) {
  path_ = info.folder / "metrics.jsonl";
  std::string kept;
  if (info.start.batch > 0) {
    std::ifstream before(path_);
    for (std::string line; std::getline(before, line);) {
      const auto entry = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (is_kept(entry, info)) kept += line + "\n";
    }
    write_whole(path_, kept);
  }
  file_.open(path_, info.start.batch > 0 ? std::ios::app : std::ios::trunc);
  if (!file_) throw RunError(cannot_be_written(path_, errno));
}

void JsonlSink::write(const Record& record) {
  nlohmann::ordered_json line{{"event", record.event},
                              {"epoch", record.time.epoch},
                              {"batch", record.time.batch},
                              {"sample", record.time.sample},
                              {"seconds", record.time.seconds}};
  for (const auto& [name, value] : record.values) line[name] = json_number(value);
  file_ << line.dump() << '\n';
  if (record.event != "batch") file_.flush();
  if (!file_) throw RunError(cannot_be_written(path_, errno));
}

void JsonlSink::flush() {
  file_.flush();
  if (!file_) throw RunError(cannot_be_written(path_, errno));
}

ConsoleSink::ConsoleSink(bool progress_bar) : bar_(progress_bar && isatty(STDERR_FILENO) == 1) {}

ConsoleSink::~ConsoleSink() { flush(); }

void ConsoleSink::open(const RunInfo& info) {
  schedule_ = info.schedule;
  last_ = epoch_begin_ = info.start;
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
    last_ = record.time;
    if (bar_ && steady_seconds() - drawn_ > 0.1) draw();
  }
}

void ConsoleSink::flush() {
  print_epoch();
  if (bar_) std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

void ConsoleSink::draw() {
  drawn_ = steady_seconds();
  const double share = schedule_.elapsed(last_);
  const int width = 24, filled = static_cast<int>(share * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "━" : i == filled ? "╸" : " ";
  const double seconds = last_.seconds - epoch_begin_.seconds;
  const double rate =
      seconds > 0 ? static_cast<double>(last_.sample - epoch_begin_.sample) / seconds : 0;
  auto line = format("epoch %ld  ", last_.epoch + 1) + bar + format(" %3.0f%%", share * 100);
  if (values_.contains("loss/train")) line += format("  loss %.4f", values_["loss/train"]);
  if (values_.contains("metrics/train/Accuracy"))
    line += format("  accuracy %.4f", values_["metrics/train/Accuracy"]);
  line += format("  %.0f images/s", rate);
  if (share > 0) line += "  " + clock_text(last_.seconds * (1 - share) / share) + " left";
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  std::fflush(stderr);
}

void ConsoleSink::print_epoch() {
  if (!epoch_ && !eval_) return;
  const auto& time = epoch_ ? epoch_->time : eval_->time;
  std::string line = epoch_ ? format("epoch %ld", time.epoch) : format("batch %ld", time.batch);
  if (schedule_.max_duration.unit == TimeUnit::epoch && epoch_)
    line += format("/%ld", static_cast<int64_t>(schedule_.max_duration.value));
  const auto show = [&](const std::optional<Record>& record, const char* name,
                        const char* pattern) {
    if (!record) return;
    for (const auto& [key, value] : record->values)
      if (key == name) line += format(pattern, value);
  };
  if (epoch_ && values_.contains("loss/train"))
    line += format("  loss %.4f", values_["loss/train"]);
  show(epoch_, "metrics/train/Accuracy", "  accuracy %.4f");
  show(eval_, "metrics/eval/Accuracy", "  eval accuracy %.4f");
  show(eval_, "metrics/eval/CrossEntropy", "  eval cross-entropy %.4f");
  if (epoch_) {
    const double seconds = time.seconds - epoch_begin_.seconds;
    if (seconds > 0)
      line += format("  %.0f images/s",
                     static_cast<double>(time.sample - epoch_begin_.sample) / seconds);
    line += "  " + clock_text(time.seconds);
    epoch_begin_ = eval_ ? eval_->time : time;
  }
  std::fprintf(stderr, "%s%s\n", bar_ ? "\r\x1b[K" : "", line.c_str());
  std::fflush(stderr);
  epoch_.reset();
  eval_.reset();
}

void SummarySink::open(const RunInfo& info) {
  if (info.start.batch == 0 || info.folder.empty()) return;
  std::ifstream before(info.folder / "metrics.jsonl");
  for (std::string line; std::getline(before, line);) {
    const auto entry = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!is_kept(entry, info)) continue;
    for (const auto& [name, value] : entry.items())
      if (name.find('/') != std::string::npos || name == "lr")
        take(entry.value("event", ""), entry.value("batch", int64_t{0}), name, number_of(value));
  }
}

void SummarySink::write(const Record& record) {
  for (const auto& [name, value] : record.values)
    take(record.event, record.time.batch, name, value);
}

void SummarySink::take(std::string_view event, int64_t batch, const std::string& name,
                       double value) {
  last_[name] = value;
  if (!name.starts_with("metrics/") && !name.starts_with("loss/")) return;
  if (event == "batch" && name.starts_with("metrics/")) return;  // the mean of an unfinished epoch
  const auto [entry, fresh] = best_.try_emplace(name, Summary::Best{value, batch});
  if (!fresh && improves(name, value, entry->second.value)) entry->second = {value, batch};
}

}  // namespace composer
