// TensorBoard's event files, read back.
#pragma once

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "composer/logging/tensorboard.h"

namespace composer {

struct ReadEvents {
  std::vector<std::string> files;  ///< their first events' versions
  std::vector<std::pair<std::pair<std::string, int64_t>, float>> scalars;  ///< tag and step
  std::map<std::string, std::vector<std::string>> values;  ///< tag -> Summary.Value messages
};

/// All of a run, in TensorBoard's order. Checks sums: every byte belongs to a whole record.
inline ReadEvents read_events(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ReadEvents read;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    size_t whole = 0;
    for (const auto event : event_records(bytes)) {
      whole += 16 + event.size();
      const auto place = place_of_event(event);
      ProtobufReader fields(event);
      while (const auto field = fields.next()) {
        if (field->number == 3) read.files.emplace_back(field->bytes);
        if (field->number != 5) continue;
        ProtobufReader summary(field->bytes);
        while (const auto value = summary.next(1)) {
          const std::string tag(ProtobufReader(value->bytes).next(1)->bytes);
          read.values[tag].emplace_back(value->bytes);
          if (const auto number = ProtobufReader(value->bytes).next(2))
            read.scalars.push_back(
                {{tag, place.step}, std::bit_cast<float>(static_cast<uint32_t>(number->value))});
        }
      }
    }
    CHECK(whole == bytes.size());
  }
  return read;
}

}  // namespace composer
