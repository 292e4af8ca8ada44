#include "composer/logging/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/protobuf.h"
#include "base/host_name.h"
#include "base/params/json.h"
#include "composer/logging/events.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// google.protobuf.Value.
ProtobufMessage hparam_of(const nlohmann::ordered_json& json) {
  ProtobufMessage value;
  if (json.is_boolean())
    value.integer(4, json.get<bool>() ? 1 : 0);
  else if (json.is_number())
    value.real64(2, json.get<double>());
  else
    value.bytes(3, json.is_string() ? json.get<std::string>() : std::string("none"));
  return value;
}

ProtobufMessage hparams_data(int field, const ProtobufMessage& message) {
  ProtobufMessage data;
  data.message(field, message);
  return data;
}

ProtobufMessage session_start(const std::string& recipe, double wall_time) {
  ProtobufMessage info;
  for (const auto& [name, json] : flat_recipe(recipe)) {
    ProtobufMessage entry;
    entry.bytes(1, name);
    entry.message(2, hparam_of(json));
    info.message(1, entry);
  }
  info.real64(5, wall_time);
  return summary_value("_hparams_/session_start_info", "hparams", hparams_data(3, info).all());
}

ProtobufMessage session_end(bool completed, double wall_time) {
  constexpr int64_t success = 1, failure = 2;
  ProtobufMessage info;
  info.integer(1, completed ? success : failure);
  info.real64(2, wall_time);
  return summary_value("_hparams_/session_end_info", "hparams", hparams_data(4, info).all());
}

namespace fs = std::filesystem;

constexpr std::string_view file_prefix = "events.out.tfevents.", recipe_tag = "recipe/text_summary";

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(file_prefix) &&
        entry.path().filename().string().find(".partial-") == std::string::npos)
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

bool is_kept(const EventPlace& place, const RunInfo& info) {
  const auto begins = [&](std::string_view prefix) {
    return std::ranges::any_of(place.tags, [&](auto tag) { return tag.starts_with(prefix); });
  };
  if (begins("_hparams_/session_end")) return false;
  const bool of_recipe = begins(recipe_tag) || begins("_hparams_/");
  if (of_recipe && place.step > 0 && place.step >= info.start.batch) return false;
  const bool of_evaluation =
      std::ranges::any_of(place.tags, [](auto tag) { return !evaluation_set(tag).empty(); });
  const std::vector<std::string> names(place.tags.begin(), place.tags.end());
  return info.keeps(of_evaluation ? "eval" : "", place.step, names);
}

/// Removes the events that a resumption drops from an earlier process's file.
void keep_events(const fs::path& path, const RunInfo& info) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::string kept;
  bool points = false;
  for (const auto event : event_records(bytes)) {
    const auto place = place_of_event(event);
    if (!is_kept(place, info)) continue;
    points = points || !place.tags.empty();
    kept += event_record(event);
  }
  if (kept == bytes) return;
  if (points)
    write_whole(path, kept);
  else
    fs::remove(path);
}

/// TensorBoard takes files in the order of their names.
fs::path new_file(const fs::path& folder, double wall_time) {
  for (int number = 0;; ++number) {
    auto path =
        folder / (std::string(file_prefix) + std::to_string(static_cast<int64_t>(wall_time)) + "." +
                  host_name() + "." + std::to_string(::getpid()) + "." + std::to_string(number));
    if (!fs::exists(path)) return path;
  }
}

std::string as_markdown(const std::string& recipe) { return "```yaml\n" + recipe + "\n```\n"; }

}  // namespace

void TensorBoard::open(const RunInfo& info) {
  kept_ = !info.folder.empty();
  if (!kept_) return;
  const auto folder = info.folder / "tensorboard";
  try {
    fs::create_directories(folder);
    remove_partial_files(folder);
    for (const auto& file : event_files(folder)) {
      if (info.start.batch > 0)
        keep_events(file, info);
      else
        fs::remove(file);
    }
  } catch (const fs::filesystem_error& error) {
    throw RunError(error.what());
  }
  const double now = wall_seconds();
  began_ = now - info.start.seconds;
  last_batch_ = info.start.batch;
  last_step_.clear();
  file_.open(new_file(folder, now), /*fresh=*/true);
  add(first_event(now));
  if (info.recipe.empty()) return;
  add(summary_event(now, info.start.batch, {text_value(recipe_tag, as_markdown(info.recipe))}));
  add(summary_event(now, info.start.batch, {session_start(info.recipe, now)}));
}

void TensorBoard::write(const Record& record) {
  last_batch_ = record.time.batch;
  std::vector<ProtobufMessage> values;
  for (const auto& [name, value] : record.values)
    if (std::exchange(last_step_.try_emplace(name, -1).first->second, record.time.batch) !=
        record.time.batch)
      values.push_back(scalar_value(name, value));
  if (!values.empty()) add(summary_event(wall_time(record.time), record.time.batch, values));
}

void TensorBoard::write_images(const ImageRecord& record) {
  if (kept_) add(summary_event(wall_time(record.time), record.time.batch, {images_value(record)}));
}

void TensorBoard::write_histogram(const HistogramRecord& record) {
  add(summary_event(wall_time(record.time), record.time.batch, {histogram_value(record)}));
}

void TensorBoard::flush() {
  if (kept_) file_.write();
}

void TensorBoard::run_end(const RunEnd& end) {
  if (!kept_) return;
  const double now = wall_seconds();
  add(summary_event(now, last_batch_, {session_end(end.status == "completed", now)}));
  file_.finish();
}

void TensorBoard::add(const std::string& event) {
  if (kept_) file_.add(event_record(event));
}

double TensorBoard::wall_time(const Timestamp& time) const { return began_ + time.seconds; }

}  // namespace composer
