// The state of a run: what algorithms read and write.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/loading/image_size.h"
#include "base/time.h"
#include "composer/loop/loader.h"
#include "nn/distributed/ranks.h"
#include "nn/network/batch.h"
#include "nn/network/network.h"
#include "nn/network/precision.h"

namespace composer {

class ShardedParameters;
class Logger;
class Optimizer;

struct State {
  std::shared_ptr<Model> model;
  std::shared_ptr<Optimizer> optimizer;  ///< null at init
  /// Where each rank has its share of the weights and gradients alone: from after fit_start on.
  std::shared_ptr<ShardedParameters> sharded_parameters;

  RawBatch raw_batch;  ///< at augment the whole batch, still bytes, on `device`; else empty
  Batch batch;  ///< the microbatch from before_forward to after_backward, else the whole batch
  int64_t first_sample = 0;        ///< of `batch` within the whole batch of all ranks
  const Loader* loader = nullptr;  ///< that the whole batch is from; null: none yet
  at::Tensor indices;              ///< RawBatch::indices of the whole batch
  ImageSize image_size;         ///< of a training image as the loader hands it out without a plan
  Normalization normalization;  ///< of training images
  std::vector<std::string> class_names;  ///< in order of their index; may be empty
  at::Tensor outputs;                    ///< of the last forward pass
  at::Tensor loss;  ///< of the last microbatch, weighted by its share of the batch; writable at
                    ///< before_backward

  std::map<std::string, double> eval_metrics;  ///< of the last evaluation, from before its eval_end
                                               ///< on: "metrics/eval/...", "metrics/<set>/..."

  Timestamp time;
  RunLength run_length;  ///< its max_duration may be changed to stop early

  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
  at::MemoryFormat memory_format =
      at::MemoryFormat::Contiguous;  ///< of the model's weights and of batch.input
  int64_t grad_accum = 1;            ///< microbatches of a batch; writable until before_train_batch
  int64_t updates = 1;  ///< of the weights in a batch, each from an equal part of its samples;
                        ///< writable until batch_start
  bool step_is_final = false;  ///< no algorithm acts between the last update of a batch and those
                               ///< that run last on batch_end; from fit_start on
  uint64_t seed = 0;
  Ranks ranks;  ///< batch, outputs and loss are this rank's share; weights, gradients (after the
                ///< backward pass), time and metrics are those of all. Those of one image have the
                ///< same share and make the same draws

  Logger* logger = nullptr;  ///< never null inside a hook

  /// Computes the gradients of the whole batch anew at the weights as they are now, from the inputs
  /// and targets that the forward passes and losses had, unscaled and clipped as the first ones.
  /// Fires no event and leaves outputs and loss alone. May be called in after_train_batch.
  std::function<void()> recompute_gradients;

  std::vector<std::string> evaluation_sets;  ///< that a training evaluates on: "eval" for
                                             ///< val_dataset, then those of evaluators; none
                                             ///< where nothing is trained
  std::string evaluation_set;  ///< of the last evaluation, from before its eval_start on

  /// "train/cat/1.jpg, sample 12" of the sample at this place of the whole batch; "" where the
  /// loader does not tell.
  std::string sample_text(int64_t place) const;

  /// The model under the run's precision.
  Network network() const {
    return {*model, precision, device, sharded_parameters.get(), ranks.of_rows()};
  }

  /// The ranks that have different parameters' gradients, over which a norm of all is to be taken.
  Ranks gradient_ranks() const { return sharded_parameters ? ranks : Ranks(); }

  /// Share of the run that is done, in [0, 1], counted in batches.
  double elapsed() const { return run_length.elapsed(time); }
};

}  // namespace composer
