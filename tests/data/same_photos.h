// One set of photographs, kept in each of the ways that a set can be kept.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/make_jpeg.h"
#include "tests/data/make_tar.h"
#include "tests/files.h"

namespace composer::test {

/// Photograph i of SamePhotos.
inline std::string photo(int i) {
  const auto bytes =
      make_jpeg(make_picture(40 + i % 5, 44 + i % 3), {.orientation = i == 5 ? 6 : 1});
  return {bytes.begin(), bytes.end()};
}

/// The same photographs in class folders (folders/), tar files (tar/), MDS shards (mds/) and a list
/// (folders/list.csv).
struct SamePhotos : TemporaryFolder {
  static constexpr int kImages = 24, kClasses = 3;

  explicit SamePhotos(int images = kImages) {
    std::string list, tar[2];
    std::vector<std::vector<std::string>> samples[2];
    for (int i = 0; i < images; ++i) {
      const int label = i * kClasses / images, half = 2 * i / images;
      char name[16];
      std::snprintf(name, sizeof name, "%04d", i);
      const std::string bytes = photo(i);
      const std::string path = std::to_string(label) + "/" + name + ".jpg";
      write_file(*this / ("folders/" + path), bytes);
      list += path + "," + std::to_string(label) + "\n";
      tar[half] += tar_member(std::string(name) + ".jpg", bytes) +
                   tar_member(std::string(name) + ".cls", std::to_string(label));
      samples[half].push_back({bytes, mds_number(int64_t{label})});
    }
    write_file(*this / "folders/list.csv", list);
    nlohmann::json index{{"version", 2}, {"shards", nlohmann::json::array()}};
    for (size_t half = 0; half < 2; ++half) {
      const std::string number = std::to_string(half), shard = "shard.0000" + number + ".mds";
      write_file(*this / ("tar/s-" + number + ".tar"), tar[half] + tar_end());
      const auto bytes = mds_shard(samples[half], {false, true});
      write_file(*this / ("mds/" + shard), bytes);
      index["shards"].push_back({{"format", "mds"},
                                 {"version", 2},
                                 {"column_names", {"image", "label"}},
                                 {"column_encodings", {"jpeg", "int"}},
                                 {"column_sizes", {nullptr, 8}},
                                 {"samples", samples[half].size()},
                                 {"raw_data", {{"basename", shard}, {"bytes", bytes.size()}}},
                                 {"zip_data", nullptr},
                                 {"compression", nullptr}});
    }
    write_file(*this / "mds/index.json", index.dump());
  }
};

}  // namespace composer::test
