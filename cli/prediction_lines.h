// What predict prints: one JSON object a line for each image.
#pragma once

#include <ATen/ATen.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "composer/network/objective.h"

namespace composer {

/// Class names may hold any bytes.
std::string text_of(const nlohmann::ordered_json& line);

/// The index itself where it has no name.
std::string class_name(const std::vector<std::string>& names, int64_t index);

class PredictionLines {
 public:
  struct Options {
    int64_t top_k = 5;
    bool logits = false;
    const Objective* objective = &classification();
  };

  /// files: the images, or one .beton file with them. weights: where the network is from.
  PredictionLines(std::vector<std::string> files, std::vector<std::string> class_names,
                  std::string weights, Options options);

  /// Prints the lines of a batch: the likeliest classes, or the answer of each output. logits: [N,
  /// classes]; samples: int64 [N], which of the files, or of the file's samples, they are of.
  /// RunError for logits that are not finite.
  void print(const at::Tensor& logits, const at::Tensor& samples) const;

 private:
  void add_classes(nlohmann::ordered_json& line, const at::Tensor& logits) const;
  void add_values(nlohmann::ordered_json& line, const at::Tensor& outputs) const;

  std::vector<std::string> files_, class_names_;
  std::string weights_;
  Options options_;
  bool rows_;  ///< samples of one file
};

}  // namespace composer
