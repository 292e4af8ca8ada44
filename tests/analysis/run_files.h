// Folders of runs as a training leaves them, written by hand.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/temporary_folder.h"

namespace composer {

/// A run of `batches` batches, two an epoch, whose values are functions of the batch.
class RunFiles {
 public:
  RunFiles(const TemporaryFolder& folder, const std::string& name, int batches = 6)
      : path(folder / name) {
    std::filesystem::create_directories(path);
    std::string log;
    for (int batch = 1; batch <= batches; ++batch) {
      log += line("batch", batch, {{"loss/train", loss(batch)}, {"lr", 0.1 / batch}});
      if (batch % 2 == 1) continue;
      log += line("epoch", batch,
                  {{"metrics/train/Accuracy", batch / 10.0},
                   {"time/forward", 0.25},
                   {"time/dataloader", 0.0625},
                   {"time/algorithms/blurpool", 0.125},
                   {"time/other", 0.0625}});
      log += line("eval", batch,
                  {{"metrics/eval/Accuracy", batch / 20.0},
                   {"metrics/eval/CrossEntropy", loss(batch) / 2}});
    }
    write("metrics.jsonl", log);
  }

  static double loss(int batch) { return 2.0 / batch + 0.1; }

  static std::string line(const std::string& event, int batch, const nlohmann::json& values) {
    nlohmann::ordered_json json{{"event", event},
                                {"epoch", batch / 2},
                                {"batch", batch},
                                {"sample", batch * 16},
                                {"seconds", batch * 0.5}};
    for (const auto& [name, value] : values.items()) json[name] = value;
    return json.dump() + "\n";
  }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
  }

  void write_summary(double accuracy) const {
    write("summary.json",
          nlohmann::json{
              {"status", "completed"},
              {"epochs", 3},
              {"batches", 6},
              {"samples", 96},
              {"seconds", 3.0},
              {"samples_per_second", 32.0},
              {"wait_fraction", nullptr},
              {"limited_by", ""},
              {"device", "cpu"},
              {"precision", "fp32"},
              {"world_size", 1},
              {"peak_memory_bytes", 1 << 20},
              {"version", "0.1.0"},
              {"metrics", {{"loss/train", loss(6)}, {"metrics/eval/Accuracy", accuracy}}},
              {"best_metrics", {{"metrics/eval/Accuracy", {{"value", accuracy}, {"batch", 4}}}}}}
              .dump());
  }

  const std::filesystem::path path;
};

}  // namespace composer
