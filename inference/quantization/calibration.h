// A folded network together with what calibration saw of it, from which networks with codes are
// made and measured.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "inference/graph/trained_network.h"
#include "inference/quantization/calibrate.h"
#include "inference/quantization/simulate.h"

namespace composer {

class Calibration {
 public:
  /// images: batches, float32 [N, C, H, W], normalised, in an order such that the first of them are
  /// like all of them. correct_biases: of the networks that are made (bias_correction.h).
  Calibration(TrainedNetwork folded, std::vector<at::Tensor> images, int64_t activation_bits,
              bool correct_biases);

  const TrainedNetwork& folded() const { return folded_; }

  /// With codes in all layers that can have them, but those kept.
  TrainedNetwork network(const std::set<std::string>& kept) const;

  /// signal_to_noise() over the first images, of the output of each operation whose weight has
  /// codes in `network`, and of the logits: by index of the value.
  std::map<size_t, double> errors(const TrainedNetwork& network) const;
  double logits_error(const std::set<std::string>& kept) const;

  /// Those of the first and the last layer, neither of them in `kept`, without whose codes the
  /// logits' error has less than half its power; with the dB they give.
  std::map<std::string, double> ends_worth_keeping(const std::set<std::string>& kept) const;

  /// The layers by what their codes alone do to the logits, the worst first.
  std::vector<std::string> by_sensitivity() const;

 private:
  TrainedNetwork folded_;
  std::vector<at::Tensor> first_images_;
  int64_t activation_bits_;
  bool correct_biases_;
  std::map<size_t, Affine> observed_;
};

}  // namespace composer
