#include "scale/plan.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "composer/callbacks/monitors.h"

namespace composer {
namespace {

/// The factor of lost time from which a run counts as endless.
constexpr double most_lost = 100;
/// Simulated intervals between checkpoints, over several runs.
constexpr int64_t simulated_pieces = 100000;
constexpr int64_t fewest_runs = 10;

int64_t value_bytes(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
}

double sum_over(const std::vector<Training::Part>& parts, auto&& value) {
  return std::accumulate(parts.begin(), parts.end(), 0.0,
                         [&](double sum, const auto& part) { return sum + value(part); });
}

SustainedRate rate_of(const Training& training, const Gpu& gpu, const Assumptions& assumptions) {
  if (training.measured) return {0, training.measured->source};
  if (!assumptions.mfu) return sustained_rate(gpu, training.precision, assumptions.kernels);
  const auto peak = published_peak(gpu.driver, training.precision);
  if (!peak)
    throw UserError("precision: " + gpu.name + " has no published peak in " +
                    std::string(name(training.precision)));
  return {*assumptions.mfu * *peak, "--mfu of the published peak"};
}

/// `whole_steps`: options.flops_per_s is the rate of whole steps (mfu).
StepParts parts_of(const Training& training, const ImageWork& work, double images,
                   const StepOptions& options, bool whole_steps, const ParameterShards& shards) {
  StepParts parts;
  auto shape = options;  // divides the passes among the operations
  if (!training.measured && !whole_steps) {
    parts = step_parts(work, images, options);
  } else {
    if (const auto& measured = training.measured) {
      const double mean_flops =
          sum_over(training.parts,
                   [](const auto& part) { return part.batches * part.work.flops_step; }) /
          sum_over(training.parts, [](const auto& part) { return part.batches; });
      const double share = images / measured->images * work.flops_step / mean_flops;
      parts.forward = measured->forward * share, parts.backward = measured->backward * share;
      parts.rest = measured->rest + measured->loading * images / measured->images;
    } else {
      parts.forward = work.flops_forward * images / options.flops_per_s;
      parts.backward = (work.flops_step - work.flops_forward) * images / options.flops_per_s;
    }
    if (shape.flops_per_s <= 0) shape.flops_per_s = 1, shape.memory_bytes_per_s = 0;
    if (shape.memory_bytes_per_s <= 0) shape.memory_bytes_per_s = 1e300;
    parts.buckets = buckets_of(work, images, shape);
  }
  if (training.divided == Divided::weights)
    shard_parameters(parts, work, images, shape, shards, training.weight_bytes);
  if (training.divided == Divided::state) shard_optimizer_state(parts, shards);
  if (training.spatial_ranks > 1) split_images(parts, work, images, shape);
  return parts;
}

/// The memory without activations; docs/ranks.md has the formulas.
RankMemory memory_of(const Training& training, const ParameterShards& shards, const Gpu& gpu,
                     int64_t gpus) {
  const auto divided = gpus > 1 ? training.divided : Divided::nothing;
  const bool weights = divided == Divided::weights;
  const double all = sizeof(float) * shards.all.elements, own = sizeof(float) * shards.largest;
  RankMemory memory;
  memory.parameters =
      training.fixed_bytes + (weights ? own + sizeof(float) * shards.rest.elements : all);
  memory.gradients = weights ? own : all;
  memory.optimizer_state = training.state_numbers * (divided == Divided::nothing ? all : own);
  if (weights) memory.gathered = 4 * sizeof(float) * shards.largest_unit();
  if (divided == Divided::state) memory.gathered = own;
  const bool released = weights && gpu.driver.empty();  // on processors, with the units' weights
  if (value_bytes(training.precision) == 2 && !released)
    memory.half_precision_copies = 2 * shards.all.elements;
  return memory;
}

/// Mean seconds that failures cost runs of `work` seconds with `checkpoints` checkpoints; a part of
/// the run stands for a run of many intervals.
double simulated_failures(double work, double checkpoints, const FailureModel& model,
                          uint64_t seed) {
  SimulatedJob job;
  job.step.forward = work / checkpoints;
  job.failures = model;
  job.checkpoint_every = 1;
  auto whole = job;
  whole.failures.between_failures = 0;
  const auto steps = static_cast<int64_t>(
      std::min(checkpoints, static_cast<double>(simulated_pieces / fewest_runs)));
  const int64_t runs = std::clamp(simulated_pieces / steps, fewest_runs, int64_t{1000});
  double lost = -simulate(whole, steps, seed).seconds;
  for (int64_t i = 0; i < runs; ++i)
    lost +=
        simulate(job, steps, seed + static_cast<uint64_t>(i)).seconds / static_cast<double>(runs);
  return lost * checkpoints / static_cast<double>(steps);
}

/// The message for failures so frequent that the run would hardly ever end.
std::string endless(int64_t gpus, const FailureModel& model, double interval) {
  const auto seconds = [](double value) {
    std::ostringstream text;
    text << value << " s";
    return text.str();
  };
  const std::string often = "of " + std::to_string(gpus) + " GPUs one fails every " +
                            seconds(model.between_failures),
                    hardly = ": the run would hardly ever end; give ";
  if (std::exp(model.restart / model.between_failures) > most_lost)
    return "--restart_seconds: " + often + ", and a restart takes " + seconds(model.restart) +
           hardly + "fewer seconds, or more --gpu_hours_per_failure";
  if (interval <= 0)
    return "--gpu_hours_per_failure: " + often + ", and nothing is saved on the way" + hardly +
           "a run_dir and a --save_interval, or more hours";
  return "--gpu_hours_per_failure: " + often + ", and checkpoints are " + seconds(interval) +
         " apart" + hardly + "a shorter --save_interval, or more hours";
}

}  // namespace

double Training::images() const {
  return sum_over(parts, [](const Part& part) { return part.batches; }) *
         static_cast<double>(batch_size);
}

ScalePlan plan_scale(const Training& training, const Gpu& gpu, const Interconnect& network,
                     int64_t gpus, const Assumptions& assumptions, const std::string& option) {
  const int64_t of_image = training.spatial_ranks;
  if (gpus % of_image != 0)
    throw UserError(option + ": " + std::to_string(gpus) + " is no multiple of the " +
                    std::to_string(of_image) +
                    " GPUs that share an image (spatial_ranks); give one, for instance " +
                    std::to_string((gpus / of_image + 1) * of_image));
  const int64_t shares_of_batch = gpus / of_image;
  if (shares_of_batch > training.batch_size)
    throw UserError(option + ": " + std::to_string(gpus) + " GPUs" +
                    (of_image > 1 ? ", " + std::to_string(of_image) + " to an image," : "") +
                    " share a batch of " + std::to_string(training.batch_size) +
                    " images (train_batch_size); give a larger --train_batch_size, or "
                    "--batch_per_gpu");
  ScalePlan plan;
  const int64_t cards = assumptions.cards > 0 ? assumptions.cards : gpu.cards;
  plan.cluster = cluster_of(option, gpus, gpu, network, cards);
  plan.cluster.of_image = of_image;
  plan.rate = rate_of(training, gpu, assumptions);
  // The GPU with the largest share sets the pace.
  plan.images_per_gpu =
      static_cast<double>((training.batch_size + shares_of_batch - 1) / shares_of_batch);
  const StepOptions options{
      plan.rate.flops_per_s,
      gpu.memory_bytes_per_s,
      value_bytes(training.precision),
      training.gradient_bytes,
      training.bucket_bytes,
      std::min(training.microbatches, static_cast<int64_t>(plan.images_per_gpu))};
  const auto shards = shards_of(training.weights, gpus);
  const auto parts_on = [&](const ImageWork& work, const StepOptions& shape) {
    return parts_of(training, work, plan.images_per_gpu, shape, assumptions.mfu.has_value(),
                    shards);
  };
  auto at_once = options;  // an evaluation has no microbatches
  at_once.microbatches = 1;
  const auto evaluation_pass = [&](const ImageWork& work) {
    return forward_seconds(parts_on(work, at_once), plan.cluster, assumptions.overlap);
  };

  const double load_seconds =
      assumptions.cores_per_gpu && training.images_per_s_per_core > 0
          ? plan.images_per_gpu / (*assumptions.cores_per_gpu * training.images_per_s_per_core)
          : 0;
  const Training::Part* most = nullptr;
  StepParts most_parts;
  double forward = training.evaluated ? evaluation_pass(*training.evaluated) : 0;  ///< seconds
  double most_activations = 0;
  for (const auto& part : training.parts) {
    const auto parts = parts_on(part.of_rank(), options);
    const auto time =
        step_time(parts, plan.cluster, assumptions.overlap, load_seconds, assumptions.spread);
    plan.training_seconds += part.batches * time.seconds;
    plan.steps += static_cast<int64_t>(part.batches);
    if (!training.evaluated) forward = std::max(forward, evaluation_pass(part.of_rank()));
    most_activations = std::max(most_activations, part.of_rank().activation_values);
    if (most != nullptr && part.batches <= most->batches) continue;
    most = &part, most_parts = parts, plan.step = time;
  }
  plan.images_per_s = plan.training_seconds > 0 ? training.images() / plan.training_seconds : 0;
  plan.evaluation_seconds = training.evaluated_images * training.views * forward /
                            plan.images_per_gpu / static_cast<double>(shares_of_batch);

  double transfers = 0, between = 0, inside = 0;
  for (const auto& stage : stages_of(most_parts, plan.cluster, assumptions.overlap))
    for (const auto& transfer : stage.begins) {
      using Kind = Transfer::Kind;
      (transfer.kind == Kind::weights ? plan.weight_bytes
       : transfer.kind == Kind::rows  ? plan.row_bytes
                                      : plan.bytes_per_step) += transfer.bytes;
      between += bytes_between(transfer, plan.cluster);
      inside += bytes_inside(transfer, plan.cluster);
      ++transfers;
    }
  plan.machine_bytes_per_s =
      between * static_cast<double>(plan.cluster.in_machine()) / plan.step.seconds;
  plan.inside_bytes_per_s = inside / plan.step.seconds;
  if (training.images_per_s_per_core > 0)
    plan.loader_cores_per_gpu = plan.images_per_gpu / (plan.step.seconds - plan.step.loading) /
                                training.images_per_s_per_core;
  // Each rank that shares an image reads it.
  plan.storage_bytes_per_s =
      plan.images_per_s * training.image_bytes * static_cast<double>(of_image);
  plan.memory = memory_of(training, shards, gpu, gpus);
  plan.memory.activations = most_activations * plan.images_per_gpu /
                            static_cast<double>(options.microbatches) *
                            static_cast<double>(options.value_bytes);

  plan.write_seconds = training.checkpoint_bytes / assumptions.write_bytes_per_s;
  const double copied = training.divided == Divided::nothing
                            ? training.checkpoint_bytes
                            : plan.memory.parameters + plan.memory.optimizer_state;
  const double copy_seconds = copied / gpu.host_bytes_per_s;
  const double work = plan.training_seconds + plan.evaluation_seconds;
  if (training.checkpoints > 0) plan.checkpoint_interval = work / training.checkpoints;
  plan.stall_seconds = copy_seconds;
  if (!assumptions.save_async)
    plan.stall_seconds += plan.write_seconds;
  else if (training.checkpoints > 0)  // a checkpoint waits for the one before
    plan.stall_seconds += std::max(0.0, plan.write_seconds - plan.checkpoint_interval);
  plan.checkpoint_seconds = training.checkpoints * plan.stall_seconds;
  if (assumptions.gpu_hours_per_failure > 0) {
    FailureModel model{assumptions.gpu_hours_per_failure * 3600 / static_cast<double>(gpus),
                       plan.stall_seconds, assumptions.restart_seconds};
    plan.failures_per_day = 86400 / model.between_failures;
    plan.best_interval = daly_interval(model);
    auto none = model;
    none.between_failures = 0;
    plan.failure_seconds = expected_seconds(work, plan.checkpoint_interval, model) -
                           expected_seconds(work, plan.checkpoint_interval, none);
    if (!(plan.failure_seconds < most_lost * work))
      throw UserError(endless(gpus, model, plan.checkpoint_interval));
    if (assumptions.simulated_steps > 0)
      plan.simulated_failure_seconds =
          simulated_failures(work, std::max(training.checkpoints, 1.0), model, training.seed);
  }
  plan.cost = plan.seconds() / 3600 * static_cast<double>(gpus) * assumptions.price_per_hour;

  const double events =
      static_cast<double>(gpus) * static_cast<double>(assumptions.simulated_steps);
  if (assumptions.simulated_steps > 0 && events <= most_simulated &&
      events * transfers <= most_transfers)
    plan.simulated = simulate({.step = most_parts,
                               .cluster = plan.cluster,
                               .overlap = assumptions.overlap,
                               .load_seconds = load_seconds,
                               .spread = assumptions.spread,
                               .slower = {assumptions.straggler}},
                              assumptions.simulated_steps, training.seed);
  return plan;
}

nlohmann::ordered_json json_of(const ScalePlan& plan, const Training& training) {
  nlohmann::ordered_json json{
      {"gpus", plan.cluster.gpus},
      {"machines", plan.cluster.machines()},
      {"batch_size", training.batch_size},
      {"images_per_gpu", plan.images_per_gpu},
      {"steps", plan.steps},
      {"images_per_s", plan.images_per_s},
      {"step_seconds", plan.step.seconds},
      {"compute_seconds", plan.step.compute},
      {"seconds", plan.seconds()},
      {"training_seconds", plan.training_seconds},
      {"evaluation_seconds", plan.evaluation_seconds},
      {"evaluated_images", training.evaluated_images},
      {"cost", plan.cost},
      {"communication",
       {{"bytes_per_gpu", plan.bytes_per_step},
        {"seconds", plan.step.communication},
        {"hidden_fraction", plan.step.hidden_fraction()},
        {"exposed_seconds", plan.step.exposed},
        {"weight_bytes_per_gpu", plan.weight_bytes},
        {"weight_seconds", plan.step.weights},
        {"row_bytes_per_gpu", plan.row_bytes},
        {"row_seconds", plan.step.rows},
        {"machine_bytes_per_s", plan.machine_bytes_per_s},
        {"gpu_link_bytes_per_s", plan.inside_bytes_per_s}}},
      {"loader",
       {{"cores_per_gpu", plan.loader_cores_per_gpu},
        {"images_per_s_per_core", training.images_per_s_per_core},
        {"wait_seconds", plan.step.loading}}},
      {"storage_bytes_per_s", plan.storage_bytes_per_s},
      {"activation_bytes", plan.memory.activations},
      {"memory",
       {{"bytes", plan.memory.total()},
        {"parameters", plan.memory.parameters},
        {"gradients", plan.memory.gradients},
        {"optimizer_state", plan.memory.optimizer_state},
        {"gathered", plan.memory.gathered},
        {"half_precision_copies", plan.memory.half_precision_copies},
        {"activations", plan.memory.activations}}},
      {"checkpoint",
       {{"bytes", training.checkpoint_bytes},
        {"number", training.checkpoints},
        {"write_seconds", plan.write_seconds},
        {"stall_seconds", plan.stall_seconds},
        {"interval_seconds", plan.checkpoint_interval},
        {"seconds", plan.checkpoint_seconds}}},
      {"failures",
       {{"per_day", plan.failures_per_day},
        {"seconds", plan.failure_seconds},
        {"cost", plan.seconds() > 0 ? plan.cost * plan.failure_seconds / plan.seconds() : 0}}}};
  if (plan.best_interval > 0) json["checkpoint"]["best_interval_seconds"] = plan.best_interval;
  if (plan.simulated)
    json["simulated"] = {{"step_seconds", plan.simulated->seconds_per_step},
                         {"exposed_seconds", plan.simulated->exposed},
                         {"wait_seconds", plan.simulated->waited_for_data},
                         {"failure_seconds", plan.simulated_failure_seconds}};
  return json;
}

}  // namespace composer
