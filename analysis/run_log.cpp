#include "analysis/run_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "composer/error.h"
#include "composer/logging/json_number.h"

namespace composer {
namespace {

LogEntry entry_of(const nlohmann::ordered_json& json) {
  LogEntry entry;
  for (const auto& [name, value] : json.items()) {
    if (name == "event")
      entry.event = value.get<std::string>();
    else if (name == "epoch")
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

std::vector<LogEntry> read_run_log(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw UserError(file.string() + ": cannot be read; a run's folder has a metrics.jsonl");
  std::vector<LogEntry> entries;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (in.eof()) break;
    entries.push_back(read_log_line(line, file, number));
  }
  return entries;
}

LogEntry read_log_line(const std::string& line, const std::filesystem::path& file, int64_t number) {
  try {
    return entry_of(nlohmann::ordered_json::parse(line));
  } catch (const nlohmann::json::exception&) {
    throw UserError(file.string() + ":" + std::to_string(number) +
                    ": no entry of a run's metrics.jsonl");
  }
}

}  // namespace composer
