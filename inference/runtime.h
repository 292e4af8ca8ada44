// Runs a trained network on the CPU without a trainer.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>

#include "inference/graph/trained_network.h"

namespace composer {

/// The type of a network's numbers between its operations. Codes of a quantized network stay uint8.
enum class RunPrecision { fp32, bf16 };

inline const std::map<std::string, RunPrecision> run_precision_words{{"fp32", RunPrecision::fp32},
                                                                     {"bf16", RunPrecision::bf16}};

class Runtime {
 public:
  /// Folds the network and packs its weights. UserError for bf16 on a processor without it or of a
  /// quantized network, and for a quantized layer whose input has no codes.
  explicit Runtime(const TrainedNetwork& network, RunPrecision precision = RunPrecision::fp32);
  ~Runtime();
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;

  /// The logits, float32 [N, classes], of images: uint8 [N, H, W, C] of the preparation's size, or
  /// float32 [N, C, H, W], normalised. The first call with a new N may pack the weights for it.
  /// Uses at::get_num_threads() threads; with two or more images per thread, each thread computes
  /// whole images. The last bits may depend on N. Thread-safe. UserError for other images.
  at::Tensor logits(const at::Tensor& images) const;

 private:
  class Plan;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace composer
