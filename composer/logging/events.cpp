#include "composer/logging/events.h"

#include "base/files/checksum.h"
#include "composer/logging/png.h"

namespace composer {
namespace {

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

ProtobufMessage summary_value(std::string_view tag, std::string_view plugin,
                              std::string_view content, std::string_view description) {
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

}  // namespace composer
