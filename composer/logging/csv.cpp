#include "composer/logging/csv.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/json_number.h"
#include "base/text.h"
#include "composer/logging/growing_file.h"

namespace composer {
namespace {

constexpr size_t most_waiting_rows = 100'000;

const std::vector<std::string> fixed_columns{"event", "epoch", "batch", "sample", "seconds"};

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

std::string cell(double value) {
  const auto json = json_number(value);
  return json.is_string() ? json.get<std::string>() : json.dump();
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

std::string header_of(const std::vector<std::string>& columns) {
  std::vector<std::string> cells;
  for (const auto& column : columns) cells.push_back(cell(column));
  return joined(cells, ",") + "\n";
}

}  // namespace

void Csv::open(const RunInfo& info) {
  if (info.folder.empty()) return;
  const auto path = info.folder / "metrics.csv";
  std::vector<std::string> columns = fixed_columns;
  std::string rows;
  bool has_header = false;
  const auto keep = [&](const std::string& line) {
    if (line.starts_with("event,epoch,batch,")) {
      columns = cells_of(line), has_header = true;
      return;
    }
    const auto cells = cells_of(line);
    if (!has_header || cells.size() != columns.size()) return;
    std::vector<std::string> names;
    for (size_t i = 0; i < cells.size(); ++i)
      if (!cells[i].empty()) names.push_back(columns[i]);
    if (info.keeps(cells[0], std::strtoll(cells[2].c_str(), nullptr, 10), names))
      rows += line + "\n";
  };
  if (info.start.batch > 0) for_earlier_lines(path, keep);
  write_whole(path, header_of(columns) + rows);
  file_.open(path, /*fresh=*/false);
  path_ = path;
  columns_ = columns;
  written_columns_ = columns.size();
  places_.clear();
  for (size_t i = 0; i < columns.size(); ++i) places_[columns[i]] = i;
}

void Csv::write(const Record& record) {
  if (path_.empty()) return;
  if (waiting_.size() == most_waiting_rows) {
    ++dropped_;
    return;
  }
  for (const auto& value : record.values)
    if (places_.try_emplace(value.first, columns_.size()).second) columns_.push_back(value.first);
  waiting_.push_back(record);
}

void Csv::flush() {
  if (path_.empty()) return;
  if (written_columns_ < columns_.size()) widen();
  for (; !waiting_.empty(); waiting_.pop_front()) file_.add(row(waiting_.front()));
  file_.write();
}

std::string Csv::row(const Record& record) const {
  std::vector<std::string> cells(columns_.size());
  cells[0] = cell(std::string(record.event));
  cells[1] = std::to_string(record.time.epoch);
  cells[2] = std::to_string(record.time.batch);
  cells[3] = std::to_string(record.time.sample);
  cells[4] = cell(record.time.seconds);
  for (const auto& [name, value] : record.values) cells[places_.at(name)] = cell(value);
  return joined(cells, ",") + "\n";
}

/// Rewrites the file; its rows get empty cells for the new columns.
void Csv::widen() {
  file_.write();
  std::ifstream before(path_);
  std::string line;
  std::getline(before, line);
  AtomicFile wider(path_);
  wider.write(header_of(columns_));
  const std::string cells(columns_.size() - written_columns_, ',');
  while (std::getline(before, line)) wider.write(line + cells + "\n");
  wider.commit();
  written_columns_ = columns_.size();
  file_.open(path_, /*fresh=*/false);
}

void Csv::run_end(const RunEnd&) {
  if (path_.empty()) return;
  std::string problem;
  try {
    flush();
  } catch (const RunError& error) {
    problem = error.what();
  }
  if (const auto missing = dropped_ + std::ssize(waiting_); missing > 0)
    throw RunError(std::to_string(missing) + " records are missing" +
                   (problem.empty() ? "" : ": " + problem));
  file_.finish();
}

}  // namespace composer
