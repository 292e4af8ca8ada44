// TensorBoard's event files: their records, and the events in them.
// Field numbers are those of tensorboard/compat/proto/{event,summary,tensor}.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/protobuf.h"
#include "composer/logging/records.h"

namespace composer {

/// A record in the file's format: length, data and their checksums.
std::string event_record(std::string_view data);

/// The data of the records from the beginning of a file to the first cut or damaged one. The views
/// point into `file`.
std::vector<std::string_view> event_records(std::string_view file);

/// The first record of a file.
std::string first_event(double wall_time);

/// An event of values, which the functions below make. wall_time: seconds since 1970; step:
/// batches.
std::string summary_event(double wall_time, int64_t step,
                          const std::vector<ProtobufMessage>& values);

/// A Summary.Value: its tag, the plugin that shows it, the content in the plugin's own format, and
/// a description.
ProtobufMessage summary_value(std::string_view tag, std::string_view plugin = {},
                              std::string_view content = {}, std::string_view description = {});
ProtobufMessage scalar_value(std::string_view tag, double value);
ProtobufMessage text_value(std::string_view tag, std::string_view markdown);
/// All images of a record under one tag; its description has their captions.
ProtobufMessage images_value(const ImageRecord& record);
ProtobufMessage histogram_value(const HistogramRecord& record);
/// The facts that decide whether a resumption keeps an event.
struct EventPlace {
  int64_t step = 0;
  std::vector<std::string_view> tags;  ///< views into the event
};
EventPlace place_of_event(std::string_view event);

}  // namespace composer
