// The hyperparameters of a run itself: every top-level key of a recipe but those that choose
// components.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/keys/data_keys.h"
#include "base/params/params.h"
#include "base/remote/remote_path.h"
#include "base/time.h"
#include "composer/recipe/class_weights.h"
#include "nn/network/metric_sense.h"

namespace composer {

/// The traced steps, counted in this process as PyTorch's profiler does: skip_first steps, then
/// cycles of wait, warmup and active steps. Each cycle writes a trace of its active steps.
struct TraceSchedule {
  int64_t skip_first = 5, wait = 0, warmup = 1, active = 0, repeat = 1;

  void fields(auto&& f) {
    f("skip_first", skip_first, "steps before the first cycle", at_least(0));
    f("wait", wait, "steps of a cycle that pass first", at_least(0));
    f("warmup", warmup, "steps that the tracer then warms up in", at_least(0));
    f("active", active, "steps that are then traced; 0 = none, --profile makes it 5", at_least(0));
    f("repeat", repeat, "cycles; 0 = on and on", at_least(0));
  }
};

struct ProfilerOptions {
  TraceSchedule schedule;
  bool record_shapes = false, profile_memory = false, with_stack = false;

  void fields(auto&& f) {
    f("schedule", schedule, "which steps are traced");
    f("record_shapes", record_shapes, "note the shapes of operators' inputs");
    f("profile_memory", profile_memory,
      "memory over time: weights, gradients, optimizer, activations, input");
    f("with_stack", with_stack, "known to PyTorch's profiler; C++ has no such stacks");
  }

  std::string check() const {
    return with_stack ? "with_stack: must be false: a program in C++ has no Python stacks\n" : "";
  }
};

/// Options of a further evaluation set.
struct EvaluatorOptions {
  std::optional<Time> eval_interval;
  std::optional<int64_t> subset_num_batches;

  void fields(auto&& f) {
    f("eval_interval", eval_interval,
      "how often to evaluate on this set, in ep, ba, sp, sec or dur; 0 = never, none = as the "
      "run's eval_interval says");
    f("subset_num_batches", subset_num_batches,
      "ends each evaluation on this set after this many batches; -1 = all, none = as "
      "eval_subset_num_batches says",
      at_least(1).or_exactly(-1));
  }

  std::string check() const {
    return eval_interval ? check_repetition("eval_interval", *eval_interval) : "";
  }
};

/// The number of microbatches of a step.
struct Microbatches {
  int64_t count = 1;       ///< the initial number
  bool automatic = false;  ///< doubled whenever memory does not suffice

  Microbatches() = default;
  Microbatches(int64_t number) : count(number) {}
  static Microbatches by_memory() {
    Microbatches one;
    one.automatic = true;
    return one;
  }
  operator int64_t() const { return count; }
};

template <>
struct FieldType<Microbatches> {
  static std::string name() { return FieldType<int64_t>::name() + " or auto"; }
};

inline void read_value(const Value& value, const Rules& rules, const std::string& path,
                       Microbatches& out, Problems& problems) {
  if (value.kind == Value::Kind::scalar && value.text == "auto") {
    out = Microbatches::by_memory();
    return;
  }
  const size_t before = problems.size();
  int64_t count = 1;
  read_value(value, rules, path, count, problems);
  if (problems.size() == before) out = count;
}

inline void check_value(const Microbatches& value, const Rules& rules, const std::string& path,
                        Problems& problems) {
  if (!value.automatic) check_value(value.count, rules, path, problems);
}

inline Value write_value(const Microbatches& value) {
  return value.automatic ? write_value(std::string("auto")) : write_value(value.count);
}

struct TrainerOptions {
  int64_t train_batch_size = 0;
  std::optional<int64_t> eval_batch_size;
  Time max_duration;
  Time eval_interval{1, TimeUnit::epoch};
  std::string loss = "auto";
  ClassWeights class_weights;
  std::string precision = "fp32";
  std::string device = "auto";
  int64_t seed = 17;
  bool deterministic_mode = false;
  std::string cuda_graph = "auto";
  Microbatches grad_accum;
  double grad_clip_norm = -1;
  double scale_schedule_ratio = 1;
  int64_t train_subset_num_batches = -1;
  int64_t eval_subset_num_batches = -1;
  SplitOptions split;
  DataloaderOptions dataloader;
  ProfilerOptions profiler;
  std::string run_name;  ///< empty: one is made up
  std::string run_dir = "runs";
  Time log_interval{10, TimeUnit::batch};
  Time save_interval{1, TimeUnit::epoch};
  int64_t save_num_checkpoints_to_keep = -1;
  std::string load_path;  ///< empty: start afresh
  bool load_weights_only = false;
  bool autoresume = false;
  std::vector<std::string> load_ignore;
  bool load_strict = true;
  std::vector<std::string> freeze;
  std::string on_nan = "stop";
  std::string save_best;  ///< metric of the best checkpoint; empty: none is kept
  bool save_async = true;
  std::string on_save_error = "error";
  std::string save_remote;  ///< empty: checkpoints stay on this machine
  RemoteKeys remote;
  double dist_timeout = 300;
  std::string grad_comm = "fp32";
  double bucket_mb = 25;
  std::string parallelism = "ddp";
  std::string weight_comm = "fp32";
  int64_t spatial_ranks = 1;
  bool progress_bar = true;

  void fields(auto&& f) {
    f("train_batch_size", train_batch_size, "samples a step, over all ranks", at_least(1),
      required);
    f("eval_batch_size", eval_batch_size, "samples a batch of the evaluation, over all ranks",
      at_least(1));
    f("max_duration", max_duration, "length of the training, for instance 90ep or 5000ba", above(0),
      required);
    f("eval_interval", eval_interval,
      "how often to evaluate, in ep, ba, sp, sec or dur; 0 = never");
    f("loss", loss,
      "what is trained for; auto is the model's own, between classes. Data with values in place of "
      "classes need one: binary_cross_entropy for labels that hold or not, mse or l1 for numbers",
      one_of("auto", "cross_entropy", "binary_cross_entropy", "mse", "l1"));
    f("class_weights", class_weights,
      "factors of the loss of each class's samples: one for each class; those of some by their "
      "names, NAME=NUMBER; balanced: the rarer a class, the larger; none = all the same",
      above(0));
    f("precision", precision, "arithmetic of forward and loss; amp is what suits the device",
      one_of("fp32", "tf32", "amp", "amp_fp16", "amp_bf16", "bf16"));
    f("device", device, "where to compute; auto is the GPU if there is one",
      one_of("auto", "cpu", "gpu"));
    f("seed", seed, "of every random number", in(0, 4294967295.0));
    f("deterministic_mode", deterministic_mode,
      "only deterministic operations, for the same bytes also on a GPU; slower");
    f("cuda_graph", cuda_graph,
      "on a GPU, training steps are recorded once for each shape of a batch and replayed; auto: "
      "where the algorithms allow it",
      one_of("auto", "true", "false"));
    f("grad_accum", grad_accum,
      "microbatches a step is split into; auto: one, and twice as many whenever memory does not "
      "suffice",
      at_least(1));
    f("grad_clip_norm", grad_clip_norm, "largest norm of all gradients; -1 = no limit",
      above(0).or_exactly(-1));
    f("scale_schedule_ratio", scale_schedule_ratio,
      "factor on max_duration and on the schedules' times (0.5 = half as long)", above(0));
    f("train_subset_num_batches", train_subset_num_batches,
      "ends each epoch after this many batches; -1 = all", at_least(1).or_exactly(-1));
    f("eval_subset_num_batches", eval_subset_num_batches,
      "ends each evaluation after this many batches; -1 = all", at_least(1).or_exactly(-1));
    f("split", split, "train_dataset as two sets, one to train and one to evaluate on");
    f("dataloader", dataloader, "threads and buffers of both data loaders");
    f("profiler", profiler, "traces of training steps");
    f("run_name", run_name, "name of the run's folder; a new one is made up if there is none");
    f("run_dir", run_dir,
      "folder that holds the folders of runs; none = nothing is left on the disk");
    f("log_interval", log_interval, "how often values are logged, in ep, ba or sp");
    f("save_interval", save_interval,
      "how often to save, in ep, ba, sp, sec or dur; 0 = only at the end");
    f("save_num_checkpoints_to_keep", save_num_checkpoints_to_keep,
      "older ones are deleted; -1 = keep all", at_least(1).or_exactly(-1));
    f("load_path", load_path,
      "checkpoint folder, exported folder, .safetensors or .pth file to start from; s3:// and "
      "https:// too");
    f("load_weights_only", load_weights_only, "take the weights from load_path and nothing else");
    f("load_ignore", load_ignore,
      "patterns (* and ?) of tensors that are not taken from load_path and stay fresh, for "
      "instance "
      "'fc.*'");
    f("load_strict", load_strict,
      "false: tensors that the model or load_path lacks are listed, not an error");
    f("freeze", freeze,
      "patterns (* and ?) of parameters that are not trained, for instance 'layer1.*'; batch norms "
      "that are frozen whole keep their statistics");
    f("on_nan", on_nan,
      "a loss that is not finite ends the run (stop), or is reported once (ignore)",
      one_of("stop", "ignore"));
    f("save_best", save_best,
      "metric of an evaluation whose best checkpoint is kept as checkpoints/best, for instance "
      "metrics/eval/Accuracy");
    f("save_async", save_async,
      "write checkpoints while training goes on; the end of a run waits for them");
    f("on_save_error", on_save_error,
      "a checkpoint that cannot be written ends the run (error), or is reported (warn); the one "
      "before it stands",
      one_of("warn", "error"));
    f("save_remote", save_remote,
      "s3://bucket/prefix: each checkpoint is copied to prefix/run_name/checkpoints, and "
      "autoresume "
      "looks there too");
    f("remote", remote, "how s3:// and https:// are reached");
    f("dist_timeout", dist_timeout, "seconds that a rank waits for the others before the run fails",
      above(0));
    f("grad_comm", grad_comm,
      "type that gradients are sent in between ranks; less than fp32 is faster and rounds them",
      one_of("fp32", "bf16", "fp16"));
    f("bucket_mb", bucket_mb, "MiB of gradients that ranks send at once", above(0));
    f("parallelism", parallelism,
      "what each rank keeps: everything (ddp), or of its share of the parameters alone the "
      "optimizer's state (zero1), or weights, gradients and that state (fsdp)",
      one_of("ddp", "zero1", "fsdp"));
    f("weight_comm", weight_comm,
      "type that fsdp gathers weights in, which forward and backward pass then compute with; what "
      "is updated keeps its bits",
      one_of("fp32", "bf16"));
    f("spatial_ranks", spatial_ranks,
      "neighbouring ranks that have the rows of the same images, for images too large for one "
      "device; 1 = each has whole images",
      at_least(1));
    f("autoresume", autoresume, "go on from the newest checkpoint of run_name, if there is one");
    f("progress_bar", progress_bar, "show one");
  }

  std::string check() const {
    std::string problems;
    const auto need = [&](const std::string& problem) {
      if (!problem.empty()) problems += problem + "\n";
    };
    need(check_repetition("eval_interval", eval_interval));
    need(check_interval("log_interval", log_interval));
    need(check_repetition("save_interval", save_interval));
    if (max_duration.unit == TimeUnit::duration)
      problems += "max_duration: must be in ep, ba, sp or sec, not " + max_duration.str() + "\n";
    if (autoresume && run_name.empty())
      problems += "autoresume: needs run_name, the run to go on with\n";
    if (autoresume && run_dir.empty())
      problems += "autoresume: needs run_dir, where the run to go on with is\n";
    if (const auto problem = local_folder_problem(run_dir); !problem.empty())
      need("run_dir: " + problem +
           (is_remote(run_dir) ? "; save_remote: s3://bucket/prefix copies checkpoints to a store"
                               : ""));
    if (!save_remote.empty() && !save_remote.starts_with("s3://"))
      problems += "save_remote: must be s3://bucket/prefix, not '" + save_remote + "'\n";
    if (!save_remote.empty() && run_dir.empty())
      problems += "save_remote: needs run_dir, where checkpoints are written first\n";
    if (weight_comm != "fp32" && parallelism != "fsdp")
      problems += "weight_comm: needs parallelism: fsdp, which alone gathers weights\n";
    if (spatial_ranks > 1 && parallelism == "fsdp")
      problems +=
          "spatial_ranks: not with parallelism: fsdp, which gathers weights in an order that ranks "
          "with rows of images do not keep; take zero1\n";
    if (grad_accum > train_batch_size)
      problems += "grad_accum: must be at most train_batch_size (" +
                  std::to_string(train_batch_size) + "), not " + std::to_string(grad_accum) + "\n";
    if (grad_accum.automatic && parallelism == "fsdp")
      problems +=
          "grad_accum: auto cannot be with parallelism: fsdp, whose ranks gather weights from each "
          "other in every pass and would wait for the one without memory; give a number, or take "
          "zero1\n";
    if (grad_accum.automatic && spatial_ranks > 1)
      problems +=
          "grad_accum: auto cannot be with spatial_ranks, whose ranks exchange rows in every pass "
          "and would wait for the one without memory; give a number\n";
    if (load_weights_only && load_path.empty()) problems += "load_weights_only: needs load_path\n";
    if (!load_ignore.empty() && load_path.empty()) problems += "load_ignore: needs load_path\n";
    if (!load_strict && load_path.empty()) problems += "load_strict: needs load_path\n";
    if (!save_best.empty() && evaluation_set(save_best).empty())
      problems +=
          "save_best: must be a metric of the evaluation, for instance "
          "metrics/eval/Accuracy, not '" +
          save_best + "'\n";
    if (evaluation_set(save_best) == main_evaluation && eval_interval.value == 0)
      problems +=
          "save_best: needs evaluations, but eval_interval is 0; give save_best: none, or another "
          "eval_interval\n";
    if (run_name.size() > 255)
      problems += "run_name: is longer than the name of a folder may be (255 bytes)\n";
    if (run_name.find('/') != std::string::npos || run_name == "." || run_name == "..")
      problems += "run_name: must be the name of a folder, not the path '" + run_name + "'\n";
    return problems;
  }
};

inline constexpr const char* evaluators_key = "evaluators";
inline constexpr const char* evaluators_doc =
    "further sets that are evaluated on: name -> dataset, eval_interval, subset_num_batches; their "
    "metrics are metrics/<name>/Accuracy";

/// The allowed names, as a regular expression.
inline constexpr const char* evaluator_name_pattern = "^(?!(eval|train)$)[A-Za-z0-9_-]+$";

/// What is wrong with a set's name, to follow the name in a message; empty if nothing is.
inline std::string evaluator_name_problem(const std::string& name) {
  if (name == "eval") return "is val_dataset's name; choose another one";
  if (name == "train") return "would be taken for the training's metrics; choose another name";
  constexpr const char* allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (name.empty() || name.find_first_not_of(allowed) != std::string::npos)
    return "must be of letters, digits, _ and -, as it is part of the metrics' names";
  return "";
}

}  // namespace composer
