// A trained network ready to run on the CPU, as fast as its processor allows and without a trainer.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>

#include "inference/graph/trained_network.h"

namespace composer {

/// Of a network's numbers between its operations. Codes of a quantized network stay what they are.
enum class RunPrecision { fp32, bf16 };

inline const std::map<std::string, RunPrecision> run_precision_words{{"fp32", RunPrecision::fp32},
                                                                     {"bf16", RunPrecision::bf16}};

class Runtime {
 public:
  /// Folds the network and packs its weights, which takes a moment. UserError where the processor
  /// has no bf16, for bf16 of a quantized network, and for one whose quantization lacks codes.
  explicit Runtime(const TrainedNetwork& network, RunPrecision precision = RunPrecision::fp32);
  ~Runtime();
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;

  /// images: uint8 [N, H, W, C] of the preparation's size, or float32 [N, C, H, W] normalised as it
  /// says; N may change from call to call, and where it is a new one the weights may be packed for
  /// it -> float32 [N, classes], by at::get_num_threads() threads, each with images of its own
  /// where there are two or more for each. A number of images may change last bits. Any number of
  /// threads may call at once. UserError for other images.
  at::Tensor logits(const at::Tensor& images) const;

 private:
  class Plan;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace composer
