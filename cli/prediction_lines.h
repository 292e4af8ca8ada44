// What predict prints: one JSON object a line for each image.
#pragma once

#include <ATen/ATen.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "nn/network/objective.h"

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
  /// What the files are, by their list.
  struct Labels {
    std::string list{};                ///< for messages
    std::vector<std::string> texts{};  ///< of each file, empty where it has none; none: no list
    std::vector<int64_t> lines{};      ///< of the list
  };

  /// files: the images, or one .beton file with them. weights: where the network is from. labels:
  /// names of classes, or their numbers; UserError for others.
  PredictionLines(std::vector<std::string> files, std::vector<std::string> class_names,
                  std::string weights, Options options, Labels labels);

  /// Prints the lines of a batch: the likeliest classes, or the answer of each output. logits: [N,
  /// classes]; samples: int64 [N], which of the files, or of the file's samples, they are of.
  /// RunError for logits that are not finite.
  void print(const at::Tensor& logits, const at::Tensor& samples);
  /// To be called after all: says in the log how many of those with a label were right.
  void finish() const;

 private:
  void add_classes(nlohmann::ordered_json& line, const at::Tensor& logits) const;
  void add_values(nlohmann::ordered_json& line, const at::Tensor& outputs) const;

  void find_classes();

  std::vector<std::string> files_, class_names_;
  std::string weights_;
  Options options_;
  Labels labels_;
  std::vector<int64_t> classes_;  ///< that the labels mean, -1 where there is none
  int64_t labelled_ = 0, right_ = 0;
  bool rows_;  ///< samples of one file
};

}  // namespace composer
