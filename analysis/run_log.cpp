#include "analysis/run_log.h"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"

namespace composer {
namespace {

LogEntry entry_of(const nlohmann::ordered_json& json) {
  LogEntry entry;
  entry.event = json.at("event").get<std::string>();
  for (const auto& [name, value] : json.items()) {
    if (name == "event") continue;
    if (name == "epoch")
      entry.epoch = value.get<int64_t>();
    else if (name == "batch")
      entry.batch = value.get<int64_t>();
    else if (name == "sample")
      entry.sample = value.get<int64_t>();
    else if (name == "seconds")
      entry.seconds = number_of(value);
    else
      entry.values[name] = number_of(value);
  }
  return entry;
}

}  // namespace

RunLog read_run_log(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw UserError(file.string() + ": cannot be read; a run's folder has a metrics.jsonl");
  RunLog log;
  int64_t number = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    ++number;
    if (auto entry = read_log_line(line))
      log.entries.push_back(std::move(*entry));
    else if (log.damaged++ == 0)
      log.first_damaged = number;
  }
  if (log.damaged > 0 && log.entries.empty())
    throw UserError(file.string() + ":1: no entry of a run's metrics.jsonl, nor is any other line");
  return log;
}

std::optional<LogEntry> read_log_line(const std::string& line) {
  try {
    return entry_of(nlohmann::ordered_json::parse(line));
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

bool RunLogTail::update(std::vector<LogEntry>& log) {
  struct stat now {};
  if (stat(file_.c_str(), &now) != 0) return false;
  bool changed = false;
  if (now.st_ino != inode_ || now.st_size < position_) {
    changed = !log.empty();
    inode_ = now.st_ino, position_ = 0;
    log.clear();
  }
  std::ifstream in(file_);
  in.seekg(position_);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    position_ += std::ssize(line) + 1;
    auto entry = read_log_line(line);
    if (!entry) continue;
    log.push_back(std::move(*entry));
    changed = true;
  }
  return changed;
}

}  // namespace composer
