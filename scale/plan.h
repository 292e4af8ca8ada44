// What a training comes to on so many GPUs: time, money, and what it asks of network, loader and
// storage. docs/scale.md has the formulas and where they come from.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nn/optimization/optimizer.h"
#include "scale/collective.h"
#include "scale/failures.h"
#include "scale/simulation.h"
#include "scale/step_time.h"
#include "scale/weight_shares.h"

namespace composer {

/// A step that a run of one process was measured to take.
struct MeasuredStep {
  double images = 0;
  double forward = 0, backward = 0, rest = 0;  ///< seconds
  double loading = 0;                          ///< seconds that the process itself loads images
  std::string source;
};

/// What is trained, on whatever machines.
struct Training {
  struct Part {
    ImageWork work;
    double batches = 0;               ///< of images of that size
    std::optional<ImageWork> rows{};  ///< with spatial_ranks: of the rank that has most rows

    const ImageWork& of_rank() const { return rows ? *rows : work; }
  };

  std::vector<Part> parts;             ///< at least one
  int64_t batch_size = 0;              ///< of all GPUs
  double evaluated_images = 0;         ///< of all evaluations
  std::optional<ImageWork> evaluated;  ///< of one of them, of a rank; none: of the largest trained
  double views = 1;                    ///< of each that the network sees
  Precision precision = Precision::fp32;
  int64_t gradient_bytes = 4;  ///< of an element, as it is sent
  double bucket_bytes = 25 << 20;
  int64_t microbatches = 1;
  Divided divided = Divided::nothing;  ///< among several GPUs
  TrainedWeights weights{};            ///< that are divided
  int64_t weight_bytes = 4;            ///< of an element, as fsdp gathers it
  int64_t spatial_ranks = 1;
  double state_numbers = 1;  ///< that the optimizer keeps for a trained number
  double fixed_bytes = 0;    ///< of parameters that are not trained, and of buffers
  double checkpoint_bytes = 0;
  double checkpoints = 0;                ///< with that at the end
  double image_bytes = 0;                ///< of a sample, in the storage
  double images_per_s_per_core = 0;      ///< that a loader gives; 0: it costs nothing
  std::optional<MeasuredStep> measured;  ///< in place of the table's rates
  uint64_t seed = 17;

  double images() const;
};

struct Assumptions {
  Kernels kernels = Kernels::pytorch;
  std::optional<double> mfu;  ///< share of the published peak that a step reaches, in place of the
                              ///< table's rates
  int64_t cards = 0;          ///< network cards of a machine; 0: the usual machine's
  std::optional<double> cores_per_gpu;  ///< that load; none: as many as it takes
  double spread = 0;                    ///< of a GPU's own time in a step, a share of it
  double straggler = 1;                 ///< factor of one GPU's own times, in the simulation alone
  double write_bytes_per_s = 1e9;       ///< of the disk that checkpoints go to
  bool save_async = true;
  double gpu_hours_per_failure = 50000;
  double restart_seconds = 180;
  double price_per_hour = 0;    ///< of a GPU
  int64_t simulated_steps = 0;  ///< 0: none
  /// Sums go on during the backward pass; not where they take the processors that it needs.
  bool overlap = true;
};

/// Bytes of a GPU, of the one that has most; float32 but for copies and activations.
struct RankMemory {
  double parameters = 0;  ///< and buffers
  double gradients = 0;
  double optimizer_state = 0;
  double gathered = 0;  ///< other GPUs' weights and gradients, for a while in each step
  double half_precision_copies = 0;  ///< of weights, kept for the backward pass
  double activations = 0;            ///< kept for the backward pass at the largest size

  double total() const {
    return parameters + gradients + optimizer_state + gathered + half_precision_copies +
           activations;
  }
};

struct ScalePlan {
  Cluster cluster;
  SustainedRate rate;
  double images_per_gpu = 0;  ///< of a step; with spatial_ranks those that it has rows of
  StepTime step;              ///< of the images of the size that most batches have
  double images_per_s = 0;    ///< over the training steps
  double training_seconds = 0, evaluation_seconds = 0, checkpoint_seconds = 0;
  double failure_seconds = 0;  ///< expected
  double cost = 0;

  double bytes_per_step = 0;        ///< of gradients, of one GPU
  double weight_bytes = 0;          ///< of a step: gathered or sent after the update
  double row_bytes = 0;             ///< of a step, that the GPU which has most to do gives or takes
  double machine_bytes_per_s = 0;   ///< of a machine's network, each way
  double inside_bytes_per_s = 0;    ///< of a GPU's link in its machine, each way
  double loader_cores_per_gpu = 0;  ///< that keep up
  double storage_bytes_per_s = 0;   ///< of all machines
  RankMemory memory;

  double write_seconds = 0;  ///< of a checkpoint
  double stall_seconds = 0;  ///< that one holds training up
  double failures_per_day = 0;
  double checkpoint_interval = 0;         ///< seconds, the recipe's
  double best_interval = 0;               ///< seconds, Daly's
  std::optional<SimulatedRun> simulated;  ///< of the images of that size too
  double simulated_failure_seconds = 0;   ///< mean of some runs

  int64_t steps = 0;
  double seconds() const {
    return training_seconds + evaluation_seconds + checkpoint_seconds + failure_seconds;
  }
};

/// GPUs times steps, and the same times what each of them sends in a step; above either there is no
/// simulation: it would take minutes.
constexpr double most_simulated = 1e6, most_transfers = 1e7;

/// option: what names the number of GPUs, for messages. UserError where they do not fill machines,
/// are no multiple of spatial_ranks, outnumber the images of a batch, or fail more often than they
/// save.
ScalePlan plan_scale(const Training& training, const Gpu& gpu, const Interconnect& network,
                     int64_t gpus, const Assumptions& assumptions, const std::string& option);

/// Bytes, seconds, and rates a second. training: what `plan` is of.
nlohmann::ordered_json json_of(const ScalePlan& plan, const Training& training);

}  // namespace composer
