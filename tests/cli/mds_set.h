// MDS shards of one JPEG file and its class, with their index.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/data/make_tar.h"

namespace composer::test {

inline std::string mds_of_one(const std::string& jpeg) {
  return mds_shard({{jpeg, mds_number(int64_t{1})}}, {false, true});
}

/// What an index says of such a shard of so many bytes.
inline nlohmann::json mds_entry(const std::string& name, size_t bytes) {
  return {{"format", "mds"},
          {"version", 2},
          {"column_names", {"image", "label"}},
          {"column_encodings", {"jpeg", "int"}},
          {"column_sizes", {nullptr, 8}},
          {"samples", 1},
          {"raw_data", {{"basename", name}, {"bytes", bytes}}},
          {"compression", nullptr}};
}

inline nlohmann::json mds_index(const nlohmann::json& entries) {
  return {{"version", 2}, {"shards", entries}};
}

}  // namespace composer::test
