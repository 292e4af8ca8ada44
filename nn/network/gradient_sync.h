// Sums of gradients over all ranks, overlapped with the backward pass.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "nn/distributed/ranks.h"

namespace composer {

/// The error for a backward pass that left out trained parameters without find_unused.
RunError took_no_part();

struct GradientSyncOptions {
  /// Type of the sent gradients: float (unchanged), bfloat16 or half, to which each rank rounds.
  at::ScalarType dtype = at::kFloat;
  double bucket_mb = 25;     ///< size of the buckets in MiB
  bool find_unused = false;  ///< some parameters may take no part in some backward passes
  bool when_asked = false;   ///< gradients are summed in sum(), not in the backward pass
};

/// The gradients that a rank has sent since the beginning.
struct SentGradients {
  int64_t bytes = 0;
  double last = 0;  ///< steady-clock seconds of the last bucket
};

/// Does nothing for a single rank. Buckets depend only on the parameters, in reverse order, so that
/// sums over three or more ranks are the same in every process that trains them (Li et al. 2020,
/// "PyTorch Distributed: Experiences on Accelerating Data Parallel Training").
class GradientSync {
 public:
  GradientSync(Ranks ranks, GradientSyncOptions options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// parameters: the trained ones, in the same order on every rank; a different list makes new
  /// buckets. loss: the tensor whose backward pass follows. last: of an update's microbatches. The
  /// last backward pass leaves the sum over ranks and microbatches; earlier ones send nothing.
  void before_backward(const std::vector<at::Tensor>& parameters, const at::Tensor& loss,
                       bool last);
  void after_backward();

  /// With when_asked: sums the gradients of the backward passes, with the same bits as in the
  /// backward pass. parameters: as in before_backward().
  void sum(const std::vector<at::Tensor>& parameters);

  /// Bytes of gradients that this rank has sent since the beginning.
  int64_t bytes() const { return sent_->bytes; }

 private:
  struct Buckets;

  void make_buckets(const std::vector<at::Tensor>& parameters);
  /// Whether each parameter took part in the pass on some rank.
  std::vector<bool> taking_part(const std::vector<at::Tensor>& parameters) const;

  Ranks ranks_;
  GradientSyncOptions options_;
  std::unique_ptr<Buckets> buckets_;
  std::shared_ptr<SentGradients> sent_ = std::make_shared<SentGradients>();
  bool last_ = false;
};

}  // namespace composer
