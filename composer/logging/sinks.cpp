#include "composer/logging/sinks.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/json_number.h"
#include "base/log.h"
#include "base/params/foreign_json.h"
#include "base/text.h"
#include "composer/logging/png.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

ordered_json entry_of(const std::string& line) {
  return ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
}

/// Whether a resumption keeps a line of metrics.jsonl.
bool is_kept(const ordered_json& entry, const RunInfo& info) {
  if (!entry.is_object()) return false;
  std::vector<std::string> names;
  for (const auto& [name, value] : entry.items()) names.push_back(name);
  return info.keeps(entry.value("event", ""), entry.value("batch", int64_t{0}), names);
}

/// `name` with only letters, digits and _, as part of a file's name.
std::string file_name(std::string name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::ranges::replace_if(name, std::not_fn(is_plain), '_');
  return name;
}

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

void JsonlSink::open(const RunInfo& info) {
  const auto path = info.folder / "metrics.jsonl";
  if (info.start.batch > 0) {
    std::string kept;
    for_earlier_lines(path, [&](const std::string& line) {
      if (is_kept(entry_of(line), info)) kept += line + "\n";
    });
    write_whole(path, kept);
  }
  file_.open(path, /*fresh=*/info.start.batch == 0);
}

void JsonlSink::write(const Record& record) { file_.add(json_of(record).dump() + "\n"); }

nlohmann::ordered_json json_of(const Record& record) {
  nlohmann::ordered_json line{{"event", record.event},
                              {"epoch", record.time.epoch},
                              {"batch", record.time.batch},
                              {"sample", record.time.sample},
                              {"seconds", record.time.seconds}};
  for (const auto& [name, value] : record.values) line[name] = json_number(value);
  return line;
}

void SummarySink::open(const RunInfo& info) {
  if (info.start.batch == 0 || info.folder.empty()) return;
  for_earlier_lines(info.folder / "metrics.jsonl", [&](const std::string& line) {
    const auto entry = entry_of(line);
    if (!is_kept(entry, info)) return;
    for (const auto& [name, value] : entry.items())
      if (name.find('/') != std::string::npos || name == "lr")
        take(entry.value("event", ""), entry.value("batch", int64_t{0}), name, number_of(value));
  });
}

void SummarySink::write(const Record& record) {
  for (const auto& [name, value] : record.values)
    take(record.event, record.time.batch, name, value);
}

void SummarySink::take(std::string_view event, int64_t batch, const std::string& name,
                       double value) {
  const bool mean_of_part = event == "batch" && name.starts_with("metrics/");
  if (mean_of_part && best_.contains(name)) return;  // an epoch's mean stands until the next one's
  last_[name] = value;
  if (!name.starts_with("metrics/") && !name.starts_with("loss/")) return;
  if (mean_of_part) return;
  const auto [entry, fresh] = best_.try_emplace(name, Summary::Best{value, batch});
  if (!fresh && improves(name, value, entry->second.value)) entry->second = {value, batch};
}

void ImageFolder::open(const RunInfo& info) {
  folder_ = info.folder;
  auto kept = ordered_json::array();
  std::ifstream before(folder_ / "images" / "index.json");
  const auto old =
      parse_foreign<ordered_json>(std::string(std::istreambuf_iterator<char>(before), {}));
  if (info.start.batch > 0 && old.is_object())
    for (const auto& image : old.value("images", ordered_json::array()))
      if (image.value("batch", int64_t{0}) <= info.start.batch) kept.push_back(image);
  index_ = kept.dump();
}

void ImageFolder::write_images(const ImageRecord& record) {
  try {
    put(record);
  } catch (const std::exception& problem) {
    log::warn("images of " + record.name + " are not kept: " + problem.what());
  }
}

void ImageFolder::put(const ImageRecord& record) {
  fs::create_directories(folder_ / "images");
  auto index = ordered_json::parse(index_);
  for (size_t i = 0; i < record.images.size(); ++i) {
    const auto file =
        fs::path("images") / (file_name(record.name) + "-ba" + std::to_string(record.time.batch) +
                              "-" + std::to_string(i) + ".png");
    write_png(folder_ / file, png(record.images[i]));
    index.push_back({{"file", file.string()},
                     {"name", record.name},
                     {"epoch", record.time.epoch},
                     {"batch", record.time.batch},
                     {"caption", record.images[i].caption}});
  }
  index_ = index.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  write_whole(folder_ / "images" / "index.json", "{\"images\": " + index_ + "}\n");
}

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
