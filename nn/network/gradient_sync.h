// Gradients of all ranks added up while the backward pass goes on.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "nn/distributed/ranks.h"

namespace composer {

/// For a backward pass that left out trained parameters where nobody said that it may.
RunError took_no_part();

struct GradientSyncOptions {
  at::ScalarType dtype = at::kFloat;  ///< that is sent: float (as the gradients are), bfloat16 or
                                      ///< half, to which each rank's part is rounded
  double bucket_mb = 25;              ///< gradients are sent in buckets of so many MiB
  bool find_unused = false;           ///< some parameters may take no part in some backward passes
  bool when_asked = false;            ///< in sum(), not in the backward pass
};

/// What a rank gave to be added up since the beginning.
struct SentGradients {
  int64_t bytes = 0;
  double last = 0;  ///< steady-clock seconds of the last bucket
};

/// With one rank it does nothing. Buckets depend on the parameters alone, in the reverse of their
/// order, so that sums of three and more ranks come out the same in every process that trains them.
/// (Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training").
class GradientSync {
 public:
  GradientSync(Ranks ranks, GradientSyncOptions options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// parameters: those that are trained, in the same order on every rank; other ones than before
  /// make new buckets. loss: whose backward pass follows. last: of the update's microbatches: its
  /// backward pass leaves the sum over ranks of all that they gave; those before it send nothing.
  void before_backward(const std::vector<at::Tensor>& parameters, const at::Tensor& loss,
                       bool last);
  void after_backward();

  /// Adds the gradients of the passes up, with when_asked: to the bits that the backward pass would
  /// have left. parameters: as before_backward's.
  void sum(const std::vector<at::Tensor>& parameters);

  /// That this rank gave to be added up since the beginning.
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
