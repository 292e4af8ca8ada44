// Post-training quantization (Krishnamoorthi 2018, arXiv:1806.08342): quantizes a folded network by
// the range of its values over images, and measures the error.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "inference/graph/trained_network.h"
#include "inference/quantization/codes.h"
#include "inference/quantization/simulate.h"

namespace composer {

class Calibration {
 public:
  /// images: batches, float32 [N, C, H, W], normalised, in an order in which the first images are
  /// representative. correct_biases: whether the networks are bias_corrected().
  Calibration(TrainedNetwork folded, std::vector<at::Tensor> images, int64_t activation_bits,
              bool correct_biases);

  const TrainedNetwork& folded() const { return folded_; }

  /// The network with codes in all layers that can have them except `kept`.
  TrainedNetwork network(const std::set<std::string>& kept) const;

  /// signal_to_noise() over the first images, by index of the value: for the output of each
  /// operation whose weight has codes in `network`, and for the logits.
  std::map<size_t, double> errors(const TrainedNetwork& network) const;
  double logits_error(const std::set<std::string>& kept) const;

  /// The first and the last layer, unless in `kept`, if keeping it in float32 halves the power of
  /// the logits' error or more; with the gain in dB.
  std::map<std::string, double> ends_worth_keeping(const std::set<std::string>& kept) const;

  /// The layers by the error of the logits when only that layer has codes, the largest error first.
  std::vector<std::string> by_sensitivity() const;

 private:
  TrainedNetwork folded_;
  std::vector<at::Tensor> first_images_;
  int64_t activation_bits_;
  bool correct_biases_;
  std::map<size_t, Affine> observed_;
};

/// The operations that compute with codes when the layers `kept` stay in float32. An operation that
/// shares its weight with a kept layer stays in float32 too.
std::set<size_t> coded_without(const Graph& folded, const std::set<std::string>& kept);

/// The folded network whose weights that have scales are replaced by int8 codes.
TrainedNetwork quantized(TrainedNetwork folded, Quantization quantization);

/// Bias correction (Nagel et al. 2019, arXiv:1906.04721). The folded graph, whose weights are still
/// float32, with new biases for the operations whose weights get codes: they restore the mean of
/// each output channel over the images, float32 [N, C, H, W], that the codes of this layer and of
/// earlier ones change.
Graph bias_corrected(Graph folded, const Quantization& quantization, const at::Tensor& images);

/// The smallest count in [0, most] that is enough, if every larger count is enough too. Empty where
/// `most` is not enough.
std::optional<size_t> fewest_enough(size_t most, const std::function<bool(size_t count)>& enough);

/// The fewest layers that have to stay in float32: the shortest beginning of worst_first() that is
/// enough, without the layers that prove unnecessary one by one. Empty where all layers are not
/// enough. worst_first is called only if keeping no layer is not enough. enough: called once per
/// set; the last set for which it returned true is the result.
std::optional<std::vector<std::string>> fewest_kept(
    const std::function<std::vector<std::string>()>& worst_first,
    const std::function<bool(const std::set<std::string>& kept)>& enough);

}  // namespace composer
