#include "composer/logging/sinks.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/files/atomic_file.h"
#include "base/json_number.h"
#include "base/log.h"
#include "base/params/foreign_json.h"
#include "composer/logging/growing_file.h"
#include "composer/logging/png.h"
#include "nn/network/metrics.h"

namespace composer {
namespace {

nlohmann::ordered_json entry_of(const std::string& line) {
  return nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
}

/// Whether a resumption keeps a line of metrics.jsonl.
bool is_kept(const nlohmann::ordered_json& entry, const RunInfo& info) {
  if (!entry.is_object()) return false;
  std::vector<std::string> names;
  for (const auto& [name, value] : entry.items()) names.push_back(name);
  return info.keeps(entry.value("event", ""), entry.value("batch", int64_t{0}), names);
}

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// `name` with only letters, digits and _, as part of a file's name.
std::string file_name(std::string name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::ranges::replace_if(name, std::not_fn(is_plain), '_');
  return name;
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

}  // namespace composer
