#include "composer/logging/tensorboard.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/checksum.h"
#include "base/host_name.h"
#include "base/params/json.h"
#include "composer/logging/png.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr size_t length_size = 8, sum_size = 4;

uint32_t masked_sum(std::string_view bytes) {
  const uint32_t sum = crc32c(bytes);
  return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

void append_number(std::string& out, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

uint64_t number_at(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

/// A TensorProto of texts or bytes.
ProtobufMessage strings(const std::vector<std::string>& texts) {
  constexpr int64_t type_string = 7;
  ProtobufMessage size, shape, tensor;
  size.integer(1, std::ssize(texts));
  shape.message(2, size);
  tensor.integer(1, type_string);
  tensor.message(2, shape);
  for (const auto& text : texts) tensor.bytes(8, text);
  return tensor;
}

std::string packed(const std::vector<double>& values) {
  std::string bytes;
  for (const double value : values) {
    ProtobufMessage one;
    one.real64(1, value);
    bytes += one.all().substr(1);
  }
  return bytes;
}

std::string captions_of(const ImageRecord& record) {
  std::string text = "At batch " + std::to_string(record.time.batch) + ":";
  for (const auto& image : record.images) {
    if (image.caption.empty()) return "";
    text += (&image == &record.images.front() ? " " : ", ") + image.caption;
  }
  return text;
}

/// A Summary.Value: its tag, the plugin that shows it, the content in the plugin's own format, and
/// a description.
ProtobufMessage summary_value(std::string_view tag, std::string_view plugin = {},
                              std::string_view content = {}, std::string_view description = {}) {
  ProtobufMessage value;
  value.bytes(1, tag);
  if (plugin.empty()) return value;
  ProtobufMessage data, metadata;
  data.bytes(1, plugin);
  data.bytes(2, content);
  metadata.message(1, data);
  if (!description.empty()) metadata.bytes(3, description);
  value.message(9, metadata);
  return value;
}

ProtobufMessage histogram_value(const HistogramRecord& record) {
  std::vector<double> limits;
  const double width = (record.max - record.min) / static_cast<double>(record.counts.size());
  for (size_t i = 1; i < record.counts.size(); ++i)
    limits.push_back(record.min + width * static_cast<double>(i));
  limits.push_back(record.max);
  ProtobufMessage histogram;
  histogram.real64(1, record.min);
  histogram.real64(2, record.max);
  histogram.real64(3, record.count);
  histogram.real64(4, record.sum);
  histogram.real64(5, record.sum_of_squares);
  histogram.bytes(6, packed(limits));
  histogram.bytes(7, packed(record.counts));
  auto value = summary_value(record.name);
  value.message(5, histogram);
  return value;
}

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

std::string event_record(std::string_view data) {
  std::string record;
  append_number(record, data.size(), length_size);
  append_number(record, masked_sum(record), sum_size);
  record += data;
  append_number(record, masked_sum(data), sum_size);
  return record;
}

std::vector<std::string_view> event_records(std::string_view file) {
  constexpr size_t head = length_size + sum_size;
  std::vector<std::string_view> records;
  while (file.size() >= head + sum_size) {
    const uint64_t size = number_at(file, 0, length_size);
    const bool whole = masked_sum(file.substr(0, length_size)) == number_at(file, length_size, 4) &&
                       size <= file.size() - head - sum_size;
    if (!whole) break;
    const auto data = file.substr(head, size);
    if (masked_sum(data) != number_at(file, head + size, sum_size)) break;
    records.push_back(data);
    file.remove_prefix(head + size + sum_size);
  }
  return records;
}

std::string first_event(double wall_time) {
  ProtobufMessage event;
  event.real64(1, wall_time);
  event.bytes(3, "brain.Event:2");
  return event.all();
}

std::string summary_event(double wall_time, int64_t step,
                          const std::vector<ProtobufMessage>& values) {
  ProtobufMessage summary, event;
  for (const auto& value : values) summary.message(1, value);
  event.real64(1, wall_time);
  event.integer(2, step);
  event.message(5, summary);
  return event.all();
}

ProtobufMessage scalar_value(std::string_view tag, double value) {
  auto scalar = summary_value(tag);
  scalar.real(2, static_cast<float>(value));
  return scalar;
}

ProtobufMessage text_value(std::string_view tag, std::string_view markdown) {
  auto text = summary_value(tag, "text");
  text.message(8, strings({std::string(markdown)}));
  return text;
}

ProtobufMessage images_value(const ImageRecord& record) {
  std::vector<std::string> parts;
  for (const auto& image : record.images) {
    if (parts.empty()) parts = {std::to_string(image.width), std::to_string(image.height)};
    parts.push_back(png(image));
  }
  auto images = summary_value(record.name, "images", {}, captions_of(record));
  images.message(8, strings(parts));
  return images;
}

EventPlace place_of_event(std::string_view event) {
  EventPlace place;
  ProtobufReader fields(event);
  while (const auto field = fields.next()) {
    if (field->number == 2) place.step = static_cast<int64_t>(field->value);
    if (field->number != 5) continue;
    ProtobufReader summary(field->bytes);
    while (const auto value = summary.next(1)) {
      ProtobufReader parts(value->bytes);
      if (const auto tag = parts.next(1)) place.tags.push_back(tag->bytes);
    }
  }
  return place;
}

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
