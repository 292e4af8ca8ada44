// Times training steps on one batch in memory; nothing is loaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "composer/run/assemble.h"

namespace composer {

/// A training step by SGD with Nesterov momentum, channels_last and label smoothing.
struct StepSetting {
  std::string model = "resnet50", precision = "amp_bf16", device = "auto", cuda_graph = "auto";
  int64_t batch_size = 16, resolution = 224, steps = 5, repeats = 3;
  Words algorithms;
};

/// The values that the words of a setting may have.
inline const Words step_precisions{"fp32", "tf32", "amp", "amp_fp16", "amp_bf16", "bf16"};
inline const Words step_devices{"auto", "cpu", "gpu"};
inline const Words step_cuda_graphs{"auto", "true", "false"};
inline const Words step_models{"resnet18",  "resnet34", "resnet50", "resnet101",
                               "resnet152", "resnet9",  "resnet20", "resnet56"};

/// The setting as a recipe.
Recipe recipe_of(const StepSetting& setting);

/// The recipe's model, algorithms and optimizer.
TrainerParts timed_parts(const StepSetting& setting);

/// Trains `batches` steps on one batch of noise with the callback `monitor`. Throws Interrupted.
Summary run_steps(TrainerParts parts, Member<Callback> monitor, int64_t batches,
                  const StepSetting& setting);

struct StepTimes {
  std::vector<double> seconds;      ///< for the steps of each repeat
  std::vector<double> cpu_seconds;  ///< CPU time of all threads, for the steps of each repeat
  std::map<std::string, double> hook_fractions;  ///< each algorithm's share of the time
  std::string device;
  int64_t peak_memory_bytes = 0;  ///< peak memory of the device
};

/// Times setting.repeats groups of setting.steps steps after `warmup` steps. Synchronizes the
/// device only between groups. hooks: whether to time the algorithms' hooks too.
StepTimes time_steps(TrainerParts parts, int64_t warmup, const StepSetting& setting, bool hooks);

}  // namespace composer
