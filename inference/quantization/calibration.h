// A folded network together with what calibration saw of it, from which networks with codes are
// made and measured.
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
  /// images: batches, float32 [N, C, H, W], normalised, in an order such that the first of them are
  /// like all of them. correct_biases: whether the networks are bias_corrected().
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

/// The operations that compute with codes when the layers `kept` stay in float32: an operation that
/// shares its weight with a kept one stays with it.
std::set<size_t> coded_without(const Graph& folded, const std::set<std::string>& kept);

/// Post-training quantization (Krishnamoorthi 2018, arXiv:1806.08342): codes for the weights of all
/// layers that can have them, except `kept`, and for the values between layers by their range over
/// the images (batches, float32 [N, C, H, W], normalised). RunError where a value is NaN.
Quantization calibrated(const Graph& folded, const std::vector<at::Tensor>& images,
                        const std::set<std::string>& kept = {},
                        int64_t activation_bits = activation_bits_here());

/// The folded network with int8 codes in the place of the weights that have scales.
TrainedNetwork quantized(TrainedNetwork folded, Quantization quantization);

/// Bias correction (Nagel et al. 2019, arXiv:1906.04721): the folded graph, its weights still
/// numbers, where the biases of the operations whose weights get codes have grown by what the means
/// of their outputs' channels lose to the codes, of their own and of the layers before, over the
/// images float32 [N, C, H, W].
Graph bias_corrected(Graph folded, const Quantization& quantization, const at::Tensor& images);

/// The smallest count of 0 to `most` that is enough, where more is enough too. Nothing where `most`
/// is not enough either.
std::optional<size_t> fewest_enough(size_t most, const std::function<bool(size_t count)>& enough);

/// The fewest found, in the order of `worst_first`, which is called where none are not enough: its
/// shortest beginning that is enough, without those of its layers that prove needless one by one.
/// Nothing where all are not enough. enough: asked once about each set; the last
/// one of which it is true is the result.
std::optional<std::vector<std::string>> fewest_kept(
    const std::function<std::vector<std::string>()>& worst_first,
    const std::function<bool(const std::set<std::string>& kept)>& enough);

}  // namespace composer
