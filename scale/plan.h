// The plan of a training on many GPUs: time, cost, and the load on network, loader and storage.
// docs/scale.md has the formulas and their sources.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nn/network/precision.h"
#include "nn/optimization/optimizer.h"
#include "scale/collective.h"
#include "scale/simulation.h"
#include "scale/step_time.h"
#include "scale/step_work.h"

namespace composer {

/// A training, apart from the machines that it runs on.
struct Training {
  struct Part {
    ImageWork work;
    double batches = 0;               ///< batches of images of this size
    std::optional<ImageWork> rows{};  ///< work of the rank with most rows, with spatial_ranks

    const ImageWork& of_rank() const { return rows ? *rows : work; }
  };

  std::vector<Part> parts;      ///< at least one
  int64_t batch_size = 0;       ///< images over all GPUs
  double evaluated_images = 0;  ///< images of all evaluations together
  std::optional<ImageWork>
      evaluated;     ///< a rank's work of one evaluated image; none: as the largest training image
  double views = 1;  ///< views of an evaluated image that the network sees
  Precision precision = Precision::fp32;
  int64_t gradient_bytes = 4;  ///< bytes of a gradient's element as it is sent
  double bucket_bytes = 25 << 20;
  int64_t microbatches = 1;
  Divided divided = Divided::nothing;  ///< what the GPUs shard
  TrainedParameters weights{};         ///< the trained parameters that are divided
  int64_t weight_bytes = 4;            ///< bytes of a weight's element as fsdp gathers it
  int64_t spatial_ranks = 1;
  double state_numbers = 1;  ///< optimizer state per trained parameter
  double fixed_bytes = 0;    ///< bytes of buffers and untrained parameters
  double checkpoint_bytes = 0;
  double checkpoints = 0;                ///< number, including the one at the end
  double image_bytes = 0;                ///< bytes of a sample in the storage
  double images_per_s_per_core = 0;      ///< the loader's rate; 0: loading costs nothing
  std::optional<MeasuredStep> measured;  ///< replaces the table's rates
  uint64_t seed = 17;

  double images() const;
};

struct Assumptions {
  Kernels kernels = Kernels::pytorch;
  std::optional<double>
      mfu;  ///< share of the published peak that a step reaches; replaces the table's rates
  int64_t cards = 0;                    ///< network cards of a machine; 0: the usual machine's
  std::optional<double> cores_per_gpu;  ///< loader cores; none: as many as it takes
  double spread = 0;     ///< standard deviation of a GPU's time in a step, as a share of it
  double straggler = 1;  ///< factor on one GPU's times, only in the simulation
  double write_bytes_per_s = 1e9;  ///< rate of the disk for checkpoints
  bool save_async = true;
  double gpu_hours_per_failure = 50000;
  double restart_seconds = 180;
  double price_per_hour = 0;    ///< price of a GPU
  int64_t simulated_steps = 0;  ///< steps of the simulation; 0: no simulation
  /// Gradients are summed during the backward pass; false if the sums take the processors that it
  /// needs.
  bool overlap = true;
};

/// The memory in bytes of the GPU that needs most; float32 except for copies and activations.
struct RankMemory {
  double parameters = 0;  ///< parameters and buffers
  double gradients = 0;
  double optimizer_state = 0;
  double gathered = 0;  ///< other GPUs' weights and gradients, held temporarily in each step
  double half_precision_copies = 0;  ///< weights kept for the backward pass
  double activations = 0;            ///< kept for the backward pass at the largest size

  double total() const {
    return parameters + gradients + optimizer_state + gathered + half_precision_copies +
           activations;
  }
};

struct ScalePlan {
  Cluster cluster;
  SustainedRate rate;
  double images_per_gpu = 0;  ///< per step; with spatial_ranks the images of which the GPU has rows
  StepTime step;              ///< a step at the image size that most batches have
  double images_per_s = 0;    ///< over all training steps
  double training_seconds = 0, evaluation_seconds = 0, checkpoint_seconds = 0;
  double failure_seconds = 0;  ///< expected
  double cost = 0;

  double bytes_per_step = 0;        ///< gradients of one GPU
  double weight_bytes = 0;          ///< weights gathered in a step or sent after its update
  double row_bytes = 0;             ///< rows that the busiest GPU sends or receives in a step
  double machine_bytes_per_s = 0;   ///< load of a machine's network, each way
  double inside_bytes_per_s = 0;    ///< load of a GPU's link in its machine, each way
  double loader_cores_per_gpu = 0;  ///< cores that keep up with the GPU
  double storage_bytes_per_s = 0;   ///< load of the storage by all machines
  RankMemory memory;

  double write_seconds = 0;  ///< time to write a checkpoint
  double stall_seconds = 0;  ///< time for which a checkpoint stops training
  double failures_per_day = 0;
  double checkpoint_interval = 0;         ///< the recipe's interval in seconds
  double best_interval = 0;               ///< Daly's interval in seconds
  std::optional<SimulatedRun> simulated;  ///< simulated steps at the image size of `step`
  double simulated_failure_seconds = 0;   ///< mean over simulated runs

  int64_t steps = 0;
  double seconds() const {
    return training_seconds + evaluation_seconds + checkpoint_seconds + failure_seconds;
  }
};

/// Limits above which there is no simulation, which would take minutes: GPUs times steps, and GPUs
/// times steps times transfers per step.
constexpr double most_simulated = 1e6, most_transfers = 1e7;

/// `option` names the number of GPUs in messages. UserError if the GPUs do not fill machines, are
/// no multiple of spatial_ranks, outnumber the images of a batch, or fail so often that the run
/// would hardly ever end.
ScalePlan plan_scale(const Training& training, const Gpu& gpu, const Interconnect& network,
                     int64_t gpus, const Assumptions& assumptions, const std::string& option);

/// Bytes, seconds and rates per second. `training` is the plan's training.
nlohmann::ordered_json json_of(const ScalePlan& plan, const Training& training);

}  // namespace composer
