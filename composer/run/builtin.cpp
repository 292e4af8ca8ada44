#include "composer/run/builtin.h"

#include "composer/callbacks/callbacks.h"
#include "composer/callbacks/monitors.h"
#include "composer/logging/command_log.h"
#include "composer/logging/console.h"
#include "composer/logging/sinks.h"
#include "composer/logging/tensorboard.h"
#include "nn/optimization/muon.h"
#include "nn/optimization/optimizers.h"
#include "nn/optimization/schedulers.h"

namespace composer {

void add_builtin_core(Registry& registry) {
  auto& optimizers = registry.optimizers;
  optimizers.add<Sgd>("sgd", "stochastic gradient descent; weight decay is part of the gradient");
  optimizers.add<DecoupledSgdw>(
      "decoupled_sgdw", "SGD whose weight decay does not depend on the learning rate's size");
  optimizers.add<Adam>("adam",
                       "Adam whose weight decay is part of the gradient, as PyTorch has it");
  optimizers.add<AdamW>("adamw", "Adam with decoupled weight decay, as PyTorch has it");
  optimizers.add<DecoupledAdamW>(
      "decoupled_adamw", "AdamW whose weight decay does not depend on the learning rate's size");
  optimizers.add<Lamb>("lamb", "Adam for very large batches: steps in proportion to the weights");
  optimizers.add<Lars>("lars", "SGD for very large batches: steps in proportion to the weights");
  optimizers.add<Muon>("muon", "orthogonal steps for convolution weights, SGD for all else");
  optimizers.add<RAdam>("radam", "Adam that warms up by itself");
  optimizers.add<Rmsprop>("rmsprop", "steps divided by the gradients' size, as PyTorch has it");

  auto& schedulers = registry.schedulers;
  schedulers.add<ScheduledBy<Constant>>("constant", "a fixed multiplier");
  schedulers.add<ScheduledBy<StepDecay>>("step", "drops by gamma every step_size");
  schedulers.add<ScheduledBy<MultiStep>>("multistep", "drops by gamma at each milestone");
  schedulers.add<ScheduledBy<Exponential>>("exponential",
                                           "falls steadily by gamma every decay_period");
  schedulers.add<ScheduledBy<LinearDecay>>("linear_decay", "a straight line");
  schedulers.add<ScheduledBy<CosineDecay>>("cosine_decay", "half a cosine");
  schedulers.add<ScheduledBy<CosineWarmRestart>>("cosine_warmrestart",
                                                 "cosines with restarts (SGDR)");
  schedulers.add<ScheduledBy<Triangular>>("triangular",
                                          "a straight line up to the peak, another down");
  schedulers.add<ScheduledBy<Polynomial>>("polynomial", "a power of the remaining share");
  schedulers.add<ScheduledBy<ConstantWithWarmup>>("constant_with_warmup",
                                                  "linear warm-up, then a fixed multiplier");
  schedulers.add<ScheduledBy<MultiStepWithWarmup>>("multistep_with_warmup",
                                                   "linear warm-up, then multistep");
  schedulers.add<ScheduledBy<LinearDecayWithWarmup>>("linear_decay_with_warmup",
                                                     "linear warm-up, then a straight line");
  schedulers.add<ScheduledBy<CosineDecayWithWarmup>>("cosine_decay_with_warmup",
                                                     "linear warm-up, then half a cosine");
  schedulers.add<ScheduledBy<PolyDecayWithWarmup>>(
      "poly_decay_with_warmup", "linear warm-up, then a power of the remaining share");

  registry.callbacks.add<SpeedMonitor>(
      "speed_monitor", "images a second, the share of time waited for data, seconds of training");
  registry.callbacks.add<LrMonitor>("lr_monitor", "the learning rate of each batch");
  registry.callbacks.add<Mfu>("mfu", "the share of the device's peak that the arithmetic comes to");
  registry.callbacks.add<EarlyStopper>("early_stopper",
                                       "ends the run when a metric has stopped improving");
  registry.callbacks.add<ThresholdStopper>("threshold_stopper",
                                           "ends the run when a metric is good enough");
  registry.callbacks.add<CheckpointSaver>(
      "checkpoint_saver", "a checkpoint every so often, beside the recipe's save_interval");
  registry.callbacks.add<MemoryMonitor>("memory_monitor",
                                        "memory of the process, and of the GPU's allocator");
  registry.callbacks.add<GradientMonitor>("gradient_monitor",
                                          "norms of the gradients, together and of each layer");
  registry.callbacks.add<RuntimeEstimator>("runtime_estimator",
                                           "the seconds that a run will still take");
  registry.callbacks.add<ImageMonitor>("image_monitor",
                                       "training images as the network gets them, with labels");

  registry.loggers.add<TensorBoard>("tensorboard", "event files that TensorBoard opens");
  registry.loggers.add<Csv>("csv", "a table, metrics.csv: a row a record, a column a value");
  registry.loggers.add<ConsoleSink>("console", "lines and a progress bar on standard error");
  registry.loggers.add<CommandLog>("command", "records as JSON lines into a program of one's own");
}

}  // namespace composer
