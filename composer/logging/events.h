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

/// As it stands in a file: length, data and their checksums.
std::string event_record(std::string_view data);

/// The data of the whole records at the beginning of a file, up to the first that is cut or
/// damaged. They point into `file`.
std::vector<std::string_view> event_records(std::string_view file);

/// The first record of a file.
std::string first_event(double wall_time);

/// An event of values, as those below. wall_time: seconds since 1970; step: batches.
std::string summary_event(double wall_time, int64_t step,
                          const std::vector<ProtobufMessage>& values);

ProtobufMessage scalar_value(std::string_view tag, double value);
ProtobufMessage text_value(std::string_view tag, std::string_view markdown);
/// All pictures of a record under one tag, with their captions as its description.
ProtobufMessage images_value(const ImageRecord& record);
ProtobufMessage histogram_value(const HistogramRecord& record);
/// What a plugin of TensorBoard wants to know of a run, in its own format.
ProtobufMessage plugin_value(std::string_view tag, std::string_view plugin,
                             std::string_view content);

/// What is needed to tell whether a resumption keeps an event.
struct EventPlace {
  int64_t step = 0;
  std::vector<std::string_view> tags;  ///< into the event
};
EventPlace place_of_event(std::string_view event);

}  // namespace composer
