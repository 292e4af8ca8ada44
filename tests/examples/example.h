// Runs the programs of examples/, and reads what their runs leave.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/temporary_folder.h"

namespace composer {

/// A few batches on drawn shapes, for the programs that are a whole `composer`. Ends before the
/// run's name; more words may follow that.
inline const std::string short_training =
    "train --progress_bar false --device cpu --precision fp32 --num_workers 1 "
    "--train_dataset.shapes.samples 128 --train_dataset.shapes.size 16 "
    "--val_dataset.shapes.samples 64 --val_dataset.shapes.size 16 --train_batch_size 32 "
    "--eval_batch_size 64 --schedulers none --run_name ";

inline Outcome run_example(const std::string& name, const TemporaryFolder& folder,
                           const std::vector<std::string>& words = {}) {
  setenv("OMP_NUM_THREADS", "1", 1);  // tiny networks, and tests run side by side
  return run(folder.path(), words, EXAMPLES "/" + name);
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline nlohmann::json json_of(const std::filesystem::path& path) {
  return nlohmann::json::parse(text_of(path));
}

/// The records of metrics.jsonl.
inline std::vector<nlohmann::json> records_of(const std::filesystem::path& run) {
  std::vector<nlohmann::json> records;
  for (const auto& line : lines_of(text_of(run / "metrics.jsonl")))
    records.push_back(nlohmann::json::parse(line));
  return records;
}

}  // namespace composer
