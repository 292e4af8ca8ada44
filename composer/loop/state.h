// The state of a run, which algorithms read and write.
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
  std::shared_ptr<Optimizer> optimizer;  ///< null during init
  /// The sharded parameters, from after fit_start on; null if every rank has all weights.
  std::shared_ptr<ShardedParameters> sharded_parameters;

  RawBatch raw_batch;  ///< the whole batch as bytes on `device`, at augment; else empty
  Batch batch;  ///< the microbatch from before_forward to after_backward, else the whole batch
  /// Index of the first sample of `batch` in the whole batch of all ranks.
  int64_t first_sample = 0;
  const Loader* loader = nullptr;        ///< the loader of the whole batch; null: no batch yet
  at::Tensor indices;                    ///< RawBatch::indices of the whole batch
  ImageSize image_size;                  ///< size of a training image without a SizePlan
  Normalization normalization;           ///< normalization of training images
  std::vector<std::string> class_names;  ///< class names by index; may be empty
  at::Tensor outputs;                    ///< outputs of the last forward pass
  at::Tensor loss;  ///< loss of the last microbatch, weighted by its share of the batch; writable
                    ///< at before_backward

  /// Metrics of the last evaluation, set before eval_end: "metrics/eval/...", "metrics/<set>/...".
  std::map<std::string, double> eval_metrics;

  Timestamp time;
  RunLength run_length;  ///< max_duration may be changed to end the run early

  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
  /// Memory format of the model's weights and of batch.input.
  at::MemoryFormat memory_format = at::MemoryFormat::Contiguous;
  int64_t grad_accum = 1;      ///< microbatches of a batch; writable until before_train_batch
  int64_t updates = 1;         ///< updates of the weights per batch, each from an equal part of the
                               ///< samples; writable until batch_start
  bool step_is_final = false;  ///< no algorithm acts between the last update of a batch and the
                               ///< Order::last algorithms of batch_end; set before fit_start
  uint64_t seed = 0;
  Ranks ranks;  ///< batch, outputs and loss are this rank's share; weights, gradients (after the
                ///< backward pass), time and metrics are common to all ranks. Ranks with rows of
                ///< the same images have the same share and draw the same random numbers

  Logger* logger = nullptr;  ///< never null inside a hook

  /// Recomputes the gradients of the whole batch at the current weights, from the inputs and
  /// targets of the step's forward passes. They are unscaled and clipped like the first ones. Fires
  /// no event and does not change outputs and loss. May be called in after_train_batch.
  std::function<void()> recompute_gradients;

  /// Names of the sets that training evaluates on: "eval" for val_dataset, then the names of
  /// evaluators; empty if nothing is trained.
  std::vector<std::string> evaluation_sets;
  std::string evaluation_set;  ///< name of the last evaluation's set, set before eval_start

  /// The model under the run's precision.
  Network network() const {
    return {*model, precision, device, sharded_parameters.get(), ranks.of_rows()};
  }

  /// The ranks over which a norm of all gradients is summed: those that have gradients of different
  /// parameters.
  Ranks gradient_ranks() const { return sharded_parameters ? ranks : Ranks(); }

  /// Share of the run that is done, in [0, 1], counted in batches.
  double elapsed() const { return run_length.elapsed(time); }
};

}  // namespace composer
