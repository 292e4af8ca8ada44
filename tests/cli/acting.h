// A short run in which every algorithm has something to do.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "composer/run/assemble.h"
#include "everything.h"
#include "models/residual_blocks.h"
#include "nn/device/one_thread.h"
#include "nn/network/layers.h"
#include "nn/network/model.h"
#include "settings.h"

namespace composer::acting {

using Names = std::vector<std::string>;

/// Two residual blocks, and every kind of layer that surgery looks for.
class TinyResidual : public Model {
 public:
  TinyResidual() {
    add("conv1", conv(3, 8, 3));
    add<BatchNorm2d>("bn1", 8);
    add<ReLU>("relu");
    add<MaxPool2d>("maxpool", Pool2dOptions{{3, 3}, {2, 2}, {1, 1}});
    add<BasicBlock>("layer1", ResidualOptions{.in_channels = 8, .width = 8});
    add<BasicBlock>("layer2", ResidualOptions{.in_channels = 8, .width = 16, .stride = 2});
    add<GroupNorm>("norm", 4, 16);
    add<AdaptiveAvgPool2d>("avgpool");
    add<Linear>("fc", 16, 10);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 10; }
};

/// Without what reads the clock.
inline TrainerParts timeless(TrainerParts parts) {
  std::erase_if(parts.callbacks, [](const auto& one) { return one.name == "speed_monitor"; });
  return parts;
}

/// Six batches in two epochs, saved after the fourth.
inline const std::string recipe = R"(model: tiny_residual
train_dataset: {cifar10: {use_synthetic: true, synthetic_num_unique_samples: 24}}
val_dataset: {cifar10: {use_synthetic: true, is_train: false, shuffle: false}}
optimizer: {sgd: {lr: 0.05, momentum: 0.9, weight_decay: 5.0e-4}}
schedulers: {cosine_decay_with_warmup: {t_warmup: 2ba}}
train_batch_size: 8
eval_batch_size: 8
train_subset_num_batches: 3
eval_subset_num_batches: 1
max_duration: 2ep
save_interval: 4ba
grad_accum: 2
precision: amp_bf16
device: cpu
progress_bar: false
)";

/// What those algorithms need to act within this run that do not at their defaults.
inline const std::map<std::string, std::string> settings{
    {"autoaugment", "--algorithms.autoaugment.policy cifar10"},
    {"bias_lr_scale", "--algorithms.bias_lr_scale.scale 4"},
    {"blurpool", "--algorithms.blurpool.min_channels 4"},
    {"ema", "--algorithms.ema.half_life 2ba"},
    {"factorize",
     "--algorithms.factorize.min_channels 8 --algorithms.factorize.min_features 8 "
     "--algorithms.factorize.latent_features 4"},
    {"ghost_batchnorm", "--algorithms.ghost_batchnorm.ghost_batch_size 2"},
    {"gradient_clipping",
     "--algorithms.gradient_clipping.clipping_type adaptive "
     "--algorithms.gradient_clipping.clipping_threshold 0.01"},
    {"layer_freezing", "--algorithms.layer_freezing.freeze_start 0.2"},
    {"lookahead", "--algorithms.lookahead.interval 3ba"},
    {"progressive_batch_size",
     "--algorithms.progressive_batch_size.initial_scale 0.25 "
     "--algorithms.progressive_batch_size.delay_fraction 0.3"},
    {"progressive_resizing",
     "--algorithms.progressive_resizing.delay_fraction 0.3 --algorithms.progressive_resizing.mode "
     "crop"},
    {"quantization_aware", "--algorithms.quantization_aware.start 2ba"},
    {"randaugment", "--algorithms.randaugment.where loader"},
    {"random_erasing",
     "--algorithms.random_erasing.probability 1 --algorithms.random_erasing.mode pixel"},
    {"selective_backprop",
     "--algorithms.selective_backprop.start 0.1 --algorithms.selective_backprop.interrupt 0"},
    {"squeeze_excite",
     "--algorithms.squeeze_excite.min_channels 8 --algorithms.squeeze_excite.latent_channels 4"},
    {"stochastic_depth",
     "--algorithms.stochastic_depth.drop_rate 0.9 --algorithms.stochastic_depth.drop_warmup 5ba "
     "--algorithms.stochastic_depth.stochastic_method sample"},
    {"swa",
     "--algorithms.swa.swa_start 1ba --algorithms.swa.swa_end 5ba --algorithms.swa.update_interval "
     "1ba"},
    {"test_time_augmentation", "--algorithms.test_time_augmentation.level 2"},
};

/// Everything, and the model of the recipe.
inline const Registry& known() {
  static Registry registry;
  static const bool filled = [] {
    add_everything(registry);
    registry.models.add<TinyResidual>("tiny_residual");
    return true;
  }();
  (void)filled;
  return registry;
}

/// The words of a command line that give these algorithms to the recipe, with settings.
inline Names words_of(const Names& algorithms) {
  Names words{"--algorithms"};
  for (const auto& name : algorithms) words.push_back(name);
  if (algorithms.empty()) words.push_back("none");
  std::set<Names> given;
  for (const auto& name : algorithms) {
    const auto found = settings.find(name);
    const auto more = found == settings.end() ? Names{} : split(found->second);
    if (given.insert(more).second) words = words + more;
  }
  return words;
}

/// Nothing that is written to standard error appears while this lives.
class Muted {
 public:
  Muted() : kept_(dup(STDERR_FILENO)) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  ~Muted() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
  }
  Muted(const Muted&) = delete;
  Muted& operator=(const Muted&) = delete;

 private:
  int kept_;
};

}  // namespace composer::acting
