// The numbers that a run logged, as points of its curves, from each of the files that hold them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "tests/composer/read_events.h"

namespace composer {

/// By tag and step; one that a file has twice is there twice.
using Points = std::multimap<std::pair<std::string, int64_t>, float>;

/// Each value of metrics.jsonl; those of an epoch's last batch and of the epoch are one.
inline Points points_of_jsonl(const std::filesystem::path& run) {
  std::map<std::pair<std::string, int64_t>, float> points;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    for (const auto& [name, value] : record.items())
      if (name.find('/') != std::string::npos || name == "lr")
        points.try_emplace({name, record.at("batch")}, value.get<float>());
  }
  return {points.begin(), points.end()};
}

inline Points points_of_events(const std::filesystem::path& run) {
  const auto read = read_events(run / "tensorboard");
  return {read.scalars.begin(), read.scalars.end()};
}

/// What TensorBoard's own reader finds; empty, and told, where no Python has it. `checks`: a part
/// of tensorboard_reference.py, or nothing.
inline std::optional<Points> points_of_tensorboard(const std::filesystem::path& run,
                                                   const std::string& checks = "") {
  const char* const python = std::getenv("COMPOSER_TENSORBOARD_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_TENSORBOARD_PYTHON names no Python with TensorBoard");
    return {};
  }
  const auto output = run / "tensorboard.txt";
  const std::string command =
      std::string(python) + " " + SOURCE_DIR + "/tests/composer/tensorboard_reference.py " +
      (run / "tensorboard").string() + " " + checks + " >" + output.string();
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream lines(output);
  Points points;
  std::string tag;
  int64_t step;
  for (float value; lines >> tag >> step >> value;) points.insert({{tag, step}, value});
  return points;
}

}  // namespace composer
