// Training steps on one batch in memory, timed: nothing is loaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "composer/run/assemble.h"

namespace composer {

/// SGD with Nesterov momentum, channels_last and label smoothing.
struct StepSetting {
  std::string model = "resnet50", precision = "amp_bf16", device = "auto", cuda_graph = "auto";
  int64_t batch_size = 16, resolution = 224, steps = 5, repeats = 3;
  Words algorithms;
};

/// What the words of a setting may be.
inline const Words step_precisions{"fp32", "tf32", "amp", "amp_fp16", "amp_bf16", "bf16"};
inline const Words step_devices{"auto", "cpu", "gpu"};
inline const Words step_cuda_graphs{"auto", "true", "false"};
inline const Words step_models{"resnet18",  "resnet34", "resnet50", "resnet101",
                               "resnet152", "resnet9",  "resnet20", "resnet56"};

/// The setting as a recipe.
Recipe recipe_of(const StepSetting& setting);

/// The recipe's model, algorithms and optimizer.
TrainerParts timed_parts(const StepSetting& setting);

/// Trains on one batch of noise again and again, so many times, watched by `monitor`. Throws
/// Interrupted.
Summary run_steps(TrainerParts parts, Member<Callback> monitor, int64_t batches,
                  const StepSetting& setting);

struct StepTimes {
  std::vector<double> seconds;                   ///< of each repeat's steps
  std::vector<double> cpu_seconds;               ///< the same, of all threads of the process
  std::map<std::string, double> hook_fractions;  ///< of the steps, by algorithm
  std::string device;
  int64_t peak_memory_bytes = 0;  ///< of the device
};

/// Of setting.repeats groups of setting.steps, after the warm-up. The device is waited for at the
/// borders of groups only. hooks: with the time in the algorithms' hooks.
StepTimes time_steps(TrainerParts parts, int64_t warmup, const StepSetting& setting, bool hooks);

}  // namespace composer
