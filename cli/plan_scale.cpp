// The subcommand plan-scale: what a recipe comes to on many GPUs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "analysis/figure_text.h"
#include "analysis/run.h"
#include "analysis/time_parts.h"
#include "base/error.h"
#include "base/log.h"
#include "base/params/json.h"
#include "base/run_context.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/cost_table.h"
#include "cli/plan.h"
#include "composer/run/assemble.h"
#include "composer/run/image_fit.h"
#include "composer/run/settle.h"
#include "nn/network/divided_pass.h"
#include "nn/network/layer_error.h"
#include "scale/plan.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

/// Sizes of images over the run are looked up at so many batches at most.
constexpr int64_t most_size_looks = 20000;
/// Above 2^53 whole numbers are no longer told apart.
constexpr double most_images = 9007199254740992.0;
/// A run whose own time ends it has none to plan.
constexpr const char* needs_length = "must be in ep, ba or sp to be planned, not ";

/// What a loader gives and what a sample weighs, by the kind of set.
struct SampleFacts {
  double bytes;              ///< in the storage; 0: of none
  double images_per_s_core;  ///< 0: costs nothing
  std::string rate_source, bytes_source;
};

SampleFacts facts_of(const Recipe& recipe) {
  const auto set = recipe.train_dataset->name();
  const auto text = dump(recipe);
  const bool beton =
      text.find("use_ffcv: true") != std::string::npos || text.find(".beton") != std::string::npos;
  const std::string here = "benchmarks/results/avx512_2_cores.json";
  if (set == "cifar10") return {3073, 1.2e6, here + ", row cifar10", "the set's files"};
  if (set == "mnist") return {785, 1.2e6, here + ", row cifar10", "the set's files"};
  if (set == "synthetic" || set == "shapes") return {0, 0, "made, at no cost", "none"};
  if (beton) return {51100, 3150, here + ", row jpeg", "FFCV's ImageNet of 500 pixels, 65.5 GB"};
  return {115400, 1710, here + ", row folder", "ImageNet's training archive, 147.9 GB"};
}

/// A part of the training without its batches: of images of this size. trains: else the same of an
/// evaluation.
Training::Part part_of(Model& model, ImageSize size, const Training& training, bool trains = true) {
  try {
    const auto graph =
        record(model, at::zeros({1, image_channels(model).value_or(3), size.height, size.width}));
    const auto cost = cost_of(graph, model);
    const auto& units = training.weights.units;
    Training::Part part{work_of(graph, cost, size, units), 0};
    if (training.spatial_ranks > 1)
      part.rows = work_of(graph, cost, size, units, training.spatial_ranks, trains);
    return part;
  } catch (const LayerError& error) {
    throw UserError(std::string("composer plan-scale: ") + error.what());
  }
}

/// The size of the batch's images, by what algorithms plan for it.
ImageSize size_at(const State& state, const Engine& engine) {
  auto size = state.image_size;
  for (const auto& algorithm : engine.algorithms())
    for (const auto& [name, value] : algorithm.component->planned(state)) {
      if (name.ends_with("/height")) size.height = std::llround(value);
      if (name.ends_with("/width")) size.width = std::llround(value);
    }
  return size;
}

double tensor_bytes(const Model& model) {
  double bytes = 0;
  for (const auto& one : model.parameters()) bytes += static_cast<double>(one.nbytes());
  for (const auto& one : model.buffers()) bytes += static_cast<double>(one.nbytes());
  return bytes;
}

/// How often something happens in the run that also happens at its end, but not twice after a
/// batch.
double times_in_run(const std::string& key, const Time& interval, const Schedule& schedule) {
  if (interval.value <= 0) return 0;
  if (interval.unit == TimeUnit::second)
    throw UserError(key + ": how often " + interval.str() +
                    " is depends on how fast the GPUs are; give it in ep, ba, sp or dur");
  return std::ceil(static_cast<double>(*schedule.total_batches()) /
                       std::max(1.0, schedule.batches(interval)) -
                   1e-9);
}

using RecipeFigures = std::vector<std::pair<std::string, ordered_json>>;

const ordered_json* figure_of(const RecipeFigures& recipe, const std::string& key) {
  const auto found = std::ranges::find(recipe, key, &RecipeFigures::value_type::first);
  return found == recipe.end() ? nullptr : &found->second;
}

/// Of each image that is evaluated, those that the network sees.
double views_of(const Recipe& recipe) {
  const auto keys = flat_recipe(dump(recipe));
  const std::string augmentation = "algorithms.test_time_augmentation.";
  const auto* const level = figure_of(keys, augmentation + "level");
  if (level == nullptr) return 1;
  return 1 + (*level == 2 ? 5 : 1) * figure_of(keys, augmentation + "share")->get<double>();
}

/// Of an element that is sent: grad_comm, weight_comm.
int64_t element_bytes(const std::string& type) { return type == "fp32" ? 4 : 2; }

/// What several ranks divide (Trainer::find_division).
Divided divided_by(const std::string& parallelism, const Optimizer& optimizer) {
  if (parallelism == "fsdp") return Divided::weights;
  return parallelism == "zero1" && optimizer.keeps_state() ? Divided::state : Divided::nothing;
}

struct Subject {
  Training training;
  std::string model, loader_source, storage_source, note;
  std::string not_evaluated;  ///< why evaluations are not counted
  int64_t parameters = 0;
  Schedule schedule;
};

void add_evaluations(const Recipe& recipe, const RunContext& context, State& state,
                     Subject& subject) {
  auto& training = subject.training;
  const auto add = [&](const std::string& set, const std::optional<Time>& own,
                       const auto& length_of) {
    const double times = times_in_run((own ? set : "") + "eval_interval",
                                      own.value_or(recipe.options.eval_interval), state.schedule);
    if (times == 0) return;
    try {
      const EpochLength length = length_of();
      training.evaluated_images += times * static_cast<double>(length.samples);
      if (!training.evaluated)
        training.evaluated =
            part_of(*state.model, length.image, training, /*trains=*/false).of_rank();
      training.views = views_of(recipe);
    } catch (const UserError& missing) {
      subject.not_evaluated = missing.what();
    }
  };
  if (recipe.val_dataset) add("", {}, [&] { return epoch_length(recipe, context, false); });
  for (const auto& evaluator : recipe.evaluators)
    add("evaluators." + evaluator.name + ".", evaluator.options.eval_interval,
        [&] { return epoch_length(recipe, context, evaluator); });
}

/// The recipe's run with its batch size, after surgery and with its frozen layers; nothing of it is
/// loaded but the length of its data, where they are there.
Subject subject_of(Recipe recipe, const RunContext& context, at::Device device) {
  auto& options = recipe.options;
  if (options.max_duration.unit == TimeUnit::second)
    throw UserError("max_duration: " + std::string(needs_length) + options.max_duration.str());
  check_bad_samples(options);
  const auto length = epoch_length(recipe, context);
  Subject subject;
  subject.note = length.note;
  subject.model = recipe.model->name();
  auto& training = subject.training;
  training.precision = resolve_precision(options.precision, device);

  options.device = "cpu";
  options.load_path.clear();
  State state;
  Logger logger;
  state.logger = &logger;
  state.image_size = length.image;
  state.seed = static_cast<uint64_t>(options.seed);
  state.schedule = schedule_of(length, options);
  const double images = state.schedule.batches(state.schedule.max_duration) *
                        static_cast<double>(options.train_batch_size);
  if (!(images <= most_images))
    throw UserError("max_duration: " + state.schedule.max_duration.str() +
                    " come to more than 2^53 images, which cannot be counted");
  auto parts = assemble_model(recipe, context);
  state.model = parts.model;
  Engine engine;
  for (auto& algorithm : parts.algorithms) engine.add(std::move(algorithm));
  engine.run(Event::init, state);
  if (!options.freeze.empty()) state.model->freeze(options.freeze);
  if (options.spatial_ranks > 1) check_by_rows(*state.model);
  subject.schedule = state.schedule;
  const auto optimizer = recipe.optimizer->build();
  training.divided = divided_by(options.parallelism, *optimizer);
  training.weights = trained_weights(*state.model);
  training.weight_bytes = element_bytes(options.weight_comm);
  training.spatial_ranks = options.spatial_ranks;

  const int64_t total = *state.schedule.total_batches(), stride = total / most_size_looks + 1;
  for (int64_t batch = 0; batch < total; batch += stride) {
    state.time = state.schedule.at_batch(batch);
    const auto size = size_at(state, engine);
    auto found = std::ranges::find_if(training.parts,
                                      [&](const auto& part) { return part.work.size == size; });
    if (found == training.parts.end()) {
      training.parts.push_back(part_of(*state.model, size, training));
      found = training.parts.end() - 1;
    }
    found->batches += static_cast<double>(std::min(stride, total - batch));
  }
  for (const auto& parameter : state.model->parameters()) subject.parameters += parameter.numel();
  training.batch_size = options.train_batch_size;
  add_evaluations(recipe, context, state, subject);
  training.gradient_bytes = element_bytes(options.grad_comm);
  training.bucket_bytes = options.bucket_mb * (1 << 20);
  training.microbatches = options.grad_accum;  // auto: as many as it begins with
  const double trained_bytes = training.weights.elements() * sizeof(float);
  training.state_numbers = static_cast<double>(optimizer->state_numbers());
  training.fixed_bytes = tensor_bytes(*state.model) - trained_bytes;
  training.checkpoint_bytes = tensor_bytes(*state.model) + trained_bytes * training.state_numbers;
  training.checkpoints =
      options.run_dir.empty()
          ? 0
          : std::max(1.0, times_in_run("save_interval", options.save_interval, state.schedule));
  const auto facts = facts_of(recipe);
  training.image_bytes = facts.bytes;
  training.images_per_s_per_core = facts.images_per_s_core;
  subject.loader_source = facts.rate_source, subject.storage_source = facts.bytes_source;
  training.seed = static_cast<uint64_t>(options.seed);
  return subject;
}

std::optional<std::string> key_of(const Run& run, const std::string& key) {
  const auto found = std::ranges::find(run.recipe, key, &RecipeKeys::value_type::first);
  return found == run.recipe.end() ? std::nullopt : std::optional(found->second);
}

/// The keys that a step's time follows, beside model's.
bool sets_pace(const std::string& key) {
  const bool size = key.ends_with("size") || key.ends_with("height") || key.ends_with("width");
  return key == "precision" || key == "grad_accum" || key == "freeze" ||
         key.starts_with("algorithms.") || (key.starts_with("train_dataset.") && size);
}

/// UserError where a run is of another network or kind of device; a warning where something else
/// that its step's time follows differs.
void check_same(const Run& run, const Recipe& recipe, const Gpu& gpu) {
  const std::string from = "--from: " + run.folder.string();
  if (run.summary->device.starts_with("cpu") != gpu.driver.empty())
    throw UserError(from + " was trained on " + run.summary->device + ", not on --gpu " + gpu.name);
  const auto then = flat_recipe(run.recipe_text), now = flat_recipe(dump(recipe));
  std::vector<std::string> others;
  const auto compare = [&](const RecipeFigures& some, const RecipeFigures& rest, bool both) {
    for (const auto& [key, value] : some) {
      const bool model = key.starts_with("model.") && key.find("initializ") == std::string::npos;
      const auto* const other = figure_of(rest, key);
      if ((!model && !sets_pace(key)) || (other != nullptr && (!both || *other == value))) continue;
      if (model) throw UserError(from + " is of another network: " + key + " differs");
      others.push_back(key);
    }
  };
  compare(now, then, true);
  compare(then, now, false);
  if (!others.empty())
    log::warn(from + " was trained with other settings, whose step is taken all the same: " +
              joined(others));
}

/// A step of a run of one process in the shares that its log has: its rate, on a CPU apart from
/// waits for the loader's threads.
MeasuredStep measured_step(const std::string& folder, const Recipe& recipe, const Gpu& gpu) {
  const auto run = read_run(folder);
  const auto batch_size = key_of(run, "train_batch_size");
  if (!run.summary || run.summary->samples_per_second <= 0 || !batch_size)
    throw UserError("--from: " + folder +
                    " has no summary.json with a rate; give a run that ended");
  if (run.summary->world_size != 1)
    throw UserError("--from: " + folder + " is of " + std::to_string(run.summary->world_size) +
                    " ranks; give a run of one");
  check_same(run, recipe, gpu);
  MeasuredStep step;
  step.images = std::stod(*batch_size);
  step.source = "measured by the run " + run.name;
  using Kind = TimePart::Kind;
  const bool loads_itself = key_of(run, "dataloader.num_workers") == "0";
  double waits = 0;
  for (const auto& part : time_parts_of(run)) {
    if (part.kind == Kind::forward) step.forward += part.seconds;
    if (part.kind == Kind::backward) step.backward += part.seconds;
    if (part.kind == Kind::optimizer || part.kind == Kind::algorithm) step.rest += part.seconds;
    if (part.kind == Kind::waiting) (loads_itself ? step.loading : waits) += part.seconds;
  }
  if (!run.summary->device.starts_with("cpu") && step.forward + step.backward + step.rest > 0) {
    // The log's parts are the host's, which is ahead of the device.
    step.forward = (step.forward + step.backward + step.rest) / 3;
    step.backward = 2 * step.forward, step.rest = step.loading = waits = 0;
  }
  if (step.forward <= 0 || step.backward <= 0)
    throw UserError("--from: " + folder + " has not logged what its steps took");
  const double work = step.forward + step.backward + step.rest + step.loading;
  const double scale = step.images / run.summary->samples_per_second / (work + waits);
  step.forward *= scale, step.backward *= scale, step.rest *= scale, step.loading *= scale;
  return step;
}

std::string rate_text(double per_second, const char* unit) {
  const auto number = short_number(per_second);
  return number + (number.find(' ') == std::string::npos ? " " : "") + unit + "/s";
}

/// A quantity of each plan, for people.
struct TableLine {
  std::string name;
  std::function<std::string(const ScalePlan&)> cell;
};

std::string milliseconds(double seconds) { return figure(seconds * 1e3, 3) + " ms"; }
std::string bytes_text(double bytes) { return short_number(bytes) + "B"; }

std::vector<TableLine> lines_of(const Training& training, const Assumptions& assumptions) {
  std::vector<TableLine> lines{
      {"GPUs", [](const auto& plan) { return count_figure(plan.cluster.gpus); }},
      {"machines", [](const auto& plan) { return count_figure(plan.cluster.machines()); }},
      {"images a GPU and step", [](const auto& plan) { return figure(plan.images_per_gpu, 6); }},
      {"images/s", [](const auto& plan) { return count_figure(std::llround(plan.images_per_s)); }},
      {"step", [](const auto& plan) { return milliseconds(plan.step.seconds); }},
      {"  compute", [](const auto& plan) { return milliseconds(plan.step.compute); }},
      {"  sums of gradients", [](const auto& plan) {
         return milliseconds(plan.step.communication - plan.step.weights - plan.step.rows);
       }}};
  if (training.divided != Divided::nothing)
    lines.push_back({"  weights from their owners",
                     [](const auto& plan) { return milliseconds(plan.step.weights); }});
  if (training.spatial_ranks > 1)
    lines.push_back(
        {"  rows of images", [](const auto& plan) { return milliseconds(plan.step.rows); }});
  lines.insert(
      lines.end(),
      {{"    of them hidden",
        [](const auto& plan) { return percent_figure(plan.step.hidden_fraction()); }},
       {"  waits for data", [](const auto& plan) { return milliseconds(plan.step.loading); }},
       {"time to train", [](const auto& plan) { return duration_figure(plan.seconds()); }},
       {"  evaluation", [](const auto& plan) { return duration_figure(plan.evaluation_seconds); }},
       {"  checkpoints", [](const auto& plan) { return duration_figure(plan.checkpoint_seconds); }},
       {"  failures", [](const auto& plan) { return duration_figure(plan.failure_seconds); }}});
  if (assumptions.price_per_hour > 0)
    lines.push_back({"cost", [](const auto& plan) { return decimal_figure(plan.cost, 2); }});
  if (training.images_per_s_per_core > 0)
    lines.push_back({"loader cores a GPU",
                     [](const auto& plan) { return figure(plan.loader_cores_per_gpu, 3); }});
  lines.insert(
      lines.end(),
      {{"from storage", [](const auto& plan) { return rate_text(plan.storage_bytes_per_s, "B"); }},
       {"  to a machine",
        [](const auto& plan) {
          return rate_text(plan.storage_bytes_per_s / static_cast<double>(plan.cluster.machines()),
                           "B");
        }},
       {"network of a machine",
        [](const auto& plan) { return rate_text(plan.machine_bytes_per_s, "B"); }},
       {"link of a GPU", [](const auto& plan) { return rate_text(plan.inside_bytes_per_s, "B"); }},
       {"memory of a GPU", [](const auto& plan) { return bytes_text(plan.memory.total()); }},
       {"  parameters", [](const auto& plan) { return bytes_text(plan.memory.parameters); }},
       {"  gradients", [](const auto& plan) { return bytes_text(plan.memory.gradients); }},
       {"  optimizer's state",
        [](const auto& plan) { return bytes_text(plan.memory.optimizer_state); }}});
  if (training.divided != Divided::nothing)
    lines.push_back({"  of other GPUs, for a while",
                     [](const auto& plan) { return bytes_text(plan.memory.gathered); }});
  if (training.precision == Precision::amp_fp16 || training.precision == Precision::amp_bf16)
    lines.push_back({"  half-precision copies", [](const auto& plan) {
                       return bytes_text(plan.memory.half_precision_copies);
                     }});
  lines.insert(
      lines.end(),
      {{"  kept activations", [](const auto& plan) { return bytes_text(plan.memory.activations); }},
       {"checkpoint, written",
        [](const auto& plan) { return duration_figure(plan.write_seconds); }},
       {"checkpoint, stall", [](const auto& plan) { return duration_figure(plan.stall_seconds); }},
       {"failures a day", [](const auto& plan) { return figure(plan.failures_per_day, 3); }},
       {"checkpoints every",
        [](const auto& plan) { return duration_figure(plan.checkpoint_interval); }}});
  if (assumptions.gpu_hours_per_failure > 0)
    lines.push_back({"best for failures",
                     [](const auto& plan) { return duration_figure(plan.best_interval); }});
  if (assumptions.simulated_steps > 0)
    lines.push_back({"step, simulated", [](const auto& plan) {
                       return plan.simulated ? milliseconds(plan.simulated->seconds_per_step)
                                             : std::string("-");
                     }});
  return lines;
}

void print_table(const std::vector<ScalePlan>& plans, const std::vector<TableLine>& lines) {
  std::vector<size_t> widths(plans.size(), 0);
  size_t names = 0;
  const auto columns = [](const std::string& text) {
    return static_cast<size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  };
  for (const auto& line : lines) {
    names = std::max(names, line.name.size());
    for (size_t i = 0; i < plans.size(); ++i)
      widths[i] = std::max(widths[i], columns(line.cell(plans[i])));
  }
  for (const auto& line : lines) {
    std::cout << line.name << std::string(names - line.name.size(), ' ');
    for (size_t i = 0; i < plans.size(); ++i) {
      const auto cell = line.cell(plans[i]);
      std::cout << "  " << std::string(widths[i] - columns(cell), ' ') << cell;
    }
    std::cout << '\n';
  }
}

ordered_json json_of(const ScalePlan& plan, const Training& training) {
  ordered_json json{
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

const Training::Part& most_batches(const Training& training) {
  return *std::ranges::max_element(training.parts, {}, &Training::Part::batches);
}

/// "88 x 88", "88 x 88 to 176 x 176".
std::string sizes_text(const Training& training) {
  const auto pixels = [](const Training::Part& part) {
    return part.work.size.height * part.work.size.width;
  };
  const auto text = [](const Training::Part& part) {
    return std::to_string(part.work.size.height) + " x " + std::to_string(part.work.size.width);
  };
  const auto [least, most] = std::ranges::minmax_element(training.parts, {}, pixels);
  return least == most ? text(*most) : text(*least) + " to " + text(*most);
}

template <class T>
std::string names_of(const std::vector<T>& known) {
  std::vector<std::string> names;
  for (const auto& one : known) names.push_back(one.name);
  return joined(names);
}

/// Where a GPU needs more memory than it has.
void warn_of_memory(const ScalePlan& plan, const Gpu& gpu) {
  const double bytes = plan.memory.total();
  if (gpu.memory_bytes <= 0 || bytes <= gpu.memory_bytes) return;
  log::warn("--gpus " + std::to_string(plan.cluster.gpus) + ": a step needs some " +
            bytes_text(bytes) + " of the " + bytes_text(gpu.memory_bytes) + " that " + gpu.name +
            " has; give a larger --grad_accum, or more GPUs");
}

/// The words of the command line.
struct Given {
  std::string file, gpu, network, kernels = "pytorch", from;
  std::vector<int64_t> gpus;
  std::optional<int64_t> batch_per_gpu;
  std::optional<double> bytes_per_image, images_per_s_per_core, link_gb_s, link_us;
  double write_gb_s = 1;
  bool json = false;
};

/// Where ranks divide nothing although the recipe says so, as a run does.
void warn_of_division(const Given& given, const TrainerOptions& options, const Training& training) {
  const bool alone = std::ranges::all_of(given.gpus, [](int64_t n) { return n == 1; });
  const std::string idle = options.parallelism == "ddp"           ? ""
                           : alone                                ? "there is one GPU"
                           : training.divided == Divided::nothing ? "the optimizer keeps no state "
                                                                    "to divide"
                                                                  : "";
  if (!idle.empty()) log::warn("parallelism: " + options.parallelism + " has no effect: " + idle);
}

/// subject_of() the recipe with so many images a step for each of the GPUs, or of those that share
/// them.
Subject subject_of(Recipe recipe, const RunContext& context, at::Device device,
                   int64_t batch_per_gpu, int64_t gpus) {
  recipe.options.train_batch_size =
      batch_per_gpu * std::max<int64_t>(1, gpus / recipe.options.spatial_ranks);
  try {
    return subject_of(std::move(recipe), context, device);
  } catch (const UserError& error) {
    const std::string problem = error.what();
    if (!problem.starts_with("train_batch_size")) throw;
    throw UserError("--batch_per_gpu: " + std::to_string(batch_per_gpu) + " on " +
                    std::to_string(gpus) + " GPUs: " + problem);
  }
}

/// The recipe's run on each number of GPUs.
std::vector<Subject> subjects_of(const Recipe& recipe, const RunContext& context, const Gpu& gpu,
                                 const Given& given) {
  std::optional<MeasuredStep> measured;
  if (!given.from.empty()) measured = measured_step(given.from, recipe, gpu);
  const at::Device device(gpu.driver.empty() ? at::kCPU : at::kCUDA);
  std::vector<Subject> subjects;
  for (const int64_t gpus : given.gpus) {
    if (!given.batch_per_gpu && !subjects.empty()) {
      subjects.push_back(subjects[0]);
      continue;
    }
    auto& subject = subjects.emplace_back(
        given.batch_per_gpu ? subject_of(recipe, context, device, *given.batch_per_gpu, gpus)
                            : subject_of(recipe, context, device));
    subject.training.measured = measured;
    if (given.bytes_per_image) {
      subject.training.image_bytes = *given.bytes_per_image;
      subject.storage_source = "--bytes_per_image";
    }
    if (given.images_per_s_per_core) {
      subject.training.images_per_s_per_core = *given.images_per_s_per_core;
      subject.loader_source = "--images_per_s_per_core";
    }
  }
  return subjects;
}

/// UserError for options that say the same thing twice.
void check_apart(const CLI::App& app, const std::string& one, const std::string& other) {
  if (app.count(one) > 0 && app.count(other) > 0)
    throw UserError(one + ", " + other + ": both say how fast steps are; give one");
}

/// Warns of an option that was given and changes nothing.
void warn_of_effect(const CLI::App& app, const std::string& option, bool has_effect,
                    const std::string& why) {
  if (app.count(option) > 0 && !has_effect) log::warn(option + ": has no effect: " + why);
}

void warn_of_effects(const CLI::App& app, const Given& given, const Assumptions& assumptions,
                     const Training& training, bool several) {
  const bool alone = std::ranges::all_of(given.gpus, [](int64_t n) { return n == 1; });
  const std::string one_machine = "the GPUs are of one machine", one_gpu = "there is one GPU";
  warn_of_effect(app, "--network", several, one_machine);
  warn_of_effect(app, "--network_cards", several, one_machine);
  warn_of_effect(app, "--link_gb_s", !alone, one_gpu);
  warn_of_effect(app, "--link_us", !alone, one_gpu);
  warn_of_effect(app, "--cores_per_gpu", training.images_per_s_per_core > 0,
                 "loading costs nothing; give --images_per_s_per_core");
  warn_of_effect(app, "--straggler", assumptions.simulated_steps > 0, "--simulated_steps is 0");
  warn_of_effect(app, "--restart_seconds", assumptions.gpu_hours_per_failure > 0,
                 "--gpu_hours_per_failure is 0");
  warn_of_effect(app, "--write_gb_s", training.checkpoints > 0, "the recipe has no run_dir");
}

}  // namespace

int plan_scale_command(const Words& words) {
  CLI::App app(
      "Says what a recipe's training comes to on so many GPUs, without any: images/s, time, cost,\n"
      "sums of gradients and how much of them the backward pass hides, loader cores, network,\n"
      "storage, checkpoints, failures. The formulas and their errors: docs/scale.md.",
      "plan-scale");
  Given given;
  Assumptions assumptions;
  assumptions.simulated_steps = 20;
  app.add_option("-f,--file", given.file, "recipe: a path, or a name from `composer list recipes`")
      ->required();
  app.add_option("--gpus", given.gpus, "numbers of GPUs: 8,64,1024")
      ->delimiter(',')
      ->required()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--gpu", given.gpu, names_of(known_gpus()))->required();
  app.add_option(
      "--network", given.network,
      "of one card: " + names_of(known_networks()) + " (needed for more than one machine)");
  app.add_option("--network_cards", assumptions.cards,
                 "of a machine (default: the GPU's usual machine's)")
      ->check(CLI::Range(1, 64));
  app.add_option("--batch_per_gpu", given.batch_per_gpu,
                 "images, in place of the recipe's train_batch_size over all GPUs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--kernels", given.kernels,
                 "whose rate: pytorch, or mlperf, the fastest published (default: pytorch)")
      ->check(choices({"pytorch", "mlperf"}));
  app.add_option("--mfu", assumptions.mfu,
                 "share of the published peak that steps reach, as the callback mfu logs it")
      ->check(positive())
      ->check(CLI::Range(1e-6, 1.0));
  app.add_option("--from", given.from,
                 "folder of a run of one process, whose measured step takes the table's place");
  app.add_option("--price_per_hour", assumptions.price_per_hour, "of one GPU")
      ->check(not_negative());
  app.add_option("--images_per_s_per_core", given.images_per_s_per_core,
                 "of the loader, as composer bench loader gives it")
      ->check(positive());
  app.add_option("--cores_per_gpu", assumptions.cores_per_gpu,
                 "that load (default: as many as it takes)")
      ->check(positive());
  app.add_option("--bytes_per_image", given.bytes_per_image, "in the storage")->check(positive());
  app.add_option("--write_gb_s", given.write_gb_s, "GB/s of the disk for checkpoints (default: 1)")
      ->check(positive());
  app.add_option("--gpu_hours_per_failure", assumptions.gpu_hours_per_failure,
                 "mean hours of a GPU until one fails; 0 = never (default: 50000)")
      ->check(not_negative());
  app.add_option("--restart_seconds", assumptions.restart_seconds,
                 "from a failure until training goes on (default: 180)")
      ->check(not_negative());
  app.add_option("--spread", assumptions.spread,
                 "standard deviation of a GPU's own time in a step, a share of it (default: 0)")
      ->check(not_negative())
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--straggler", assumptions.straggler,
                 "times that one GPU is slower than the others, in the simulation (default: 1)")
      ->check(positive())
      ->check(CLI::Range(1.0, 1000.0));
  app.add_option("--simulated_steps", assumptions.simulated_steps,
                 "of the simulation beside the formulas; 0 = none (default: 20)")
      ->check(CLI::Range(0, 100000));
  app.add_option("--link_gb_s", given.link_gb_s, "GB/s of a GPU to the others of its machine")
      ->check(positive());
  app.add_option("--link_us", given.link_us, "microseconds of a message there")
      ->check(not_negative());
  app.add_flag("--json", given.json, "one JSON object on standard output");
  app.allow_extras();
  app.footer("Any key of the recipe can be given as --dotted.key VALUE.");
  if (!parse(app, words)) return 0;

  auto gpu = find_gpu("--gpu", lower_case(given.gpu));
  if (given.link_gb_s) gpu.inside.bytes_per_s = *given.link_gb_s * 1e9;
  if (given.link_us) gpu.inside.latency = *given.link_us * 1e-6;
  check_word("--kernels", given.kernels, {"pytorch", "mlperf"});
  assumptions.kernels = given.kernels == "mlperf" ? Kernels::mlperf : Kernels::pytorch;
  assumptions.write_bytes_per_s = given.write_gb_s * 1e9;
  const bool several =
      std::ranges::any_of(given.gpus, [&](int64_t n) { return n > gpu.per_machine; });
  if (given.network.empty() && several)
    throw UserError("--network: is needed for more than one machine of " +
                    std::to_string(gpu.per_machine) + " " + gpu.name +
                    "; there are: " + names_of(known_networks()));
  const auto& network = find_network("--network", given.network.empty() ? "400g" : given.network);
  check_apart(app, "--mfu", "--from");
  check_apart(app, "--kernels", "--from");
  check_apart(app, "--kernels", "--mfu");

  const auto context = read_run_context();
  const auto settled = settle(resolve(find_recipe(given.file), overrides_of(app), registry(),
                                      {.options = option_names(app)}),
                              context, Purpose::plan);
  const Recipe& recipe = settled.recipe;
  for (const auto& choice : settled.choices) log::info("auto: " + choice);
  assumptions.overlap = !gpu.driver.empty();
  assumptions.save_async = recipe.options.save_async;
  const auto subjects = subjects_of(recipe, context, gpu, given);
  const auto& subject = subjects[0];
  const auto& training = subject.training;
  warn_of_effects(app, given, assumptions, training, several);
  if (!subject.not_evaluated.empty())
    log::warn("evaluations are not counted: " + subject.not_evaluated);
  warn_of_division(given, recipe.options, training);

  std::vector<ScalePlan> plans;
  for (size_t i = 0; i < subjects.size(); ++i) {
    plans.push_back(
        plan_scale(subjects[i].training, gpu, network, given.gpus[i], assumptions, "--gpus"));
    warn_of_memory(plans.back(), gpu);
    if (assumptions.simulated_steps > 0 && !plans.back().simulated)
      log::warn("--gpus " + std::to_string(given.gpus[i]) +
                ": is not simulated: " + std::to_string(assumptions.simulated_steps) +
                " steps of so many would take minutes; give fewer --simulated_steps");
  }

  const auto& work = most_batches(training).work;
  if (given.json) {
    ordered_json json{{"recipe", given.file},
                      {"model", subject.model},
                      {"parameters", subject.parameters},
                      {"flops_step", work.flops_step},
                      {"precision", name(training.precision)},
                      {"parallelism", recipe.options.parallelism},
                      {"spatial_ranks", training.spatial_ranks},
                      {"gpu", gpu.name},
                      {"sustained_flops_per_s", plans[0].rate.flops_per_s},
                      {"sources",
                       {{"rate", plans[0].rate.source},
                        {"gpu", gpu.source},
                        {"link", gpu.inside.source},
                        {"loader", subject.loader_source},
                        {"storage", subject.storage_source}}},
                      {"plans", ordered_json::array()}};
    if (several) json["network"] = network.name, json["sources"]["network"] = network.card.source;
    if (!subject.note.empty()) json["note"] = subject.note.substr(1);
    for (size_t i = 0; i < plans.size(); ++i)
      json["plans"].push_back(json_of(plans[i], subjects[i].training));
    std::cout << json.dump() << '\n';
    return 0;
  }
  std::cout << subject.model << ", " << short_number(static_cast<double>(subject.parameters))
            << " parameters, " << subject.schedule.max_duration.str() << " of "
            << count_figure(subject.schedule.samples_per_epoch) << " images of "
            << sizes_text(training) << subject.note << "\nsteps of " << work.size.height << " x "
            << work.size.width << ": " << short_number(work.flops_step) << "FLOPs an image\n";
  if (recipe.options.parallelism != "ddp" || training.spatial_ranks > 1)
    std::cout << "parallelism " << recipe.options.parallelism << ", spatial_ranks "
              << training.spatial_ranks << '\n';
  std::cout << '\n';
  print_table(plans, lines_of(training, assumptions));
  std::cout << '\n';
  if (plans[0].rate.flops_per_s > 0)
    std::cout << "rate      " << rate_text(plans[0].rate.flops_per_s, "FLOP") << " in "
              << name(training.precision) << ": " << plans[0].rate.source << '\n';
  else
    std::cout << "rate      " << plans[0].rate.source << '\n';
  std::cout << "GPU       " << gpu.name << ": " << gpu.source << '\n';
  if (several)
    std::cout << "network   "
              << counted(assumptions.cards > 0 ? assumptions.cards : gpu.cards, "card") << " of "
              << network.name << " a machine: " << network.card.source << '\n';
  std::cout
      << "loader    " << subject.loader_source << "\nstorage   " << subject.storage_source << '\n'
      << "Not counted: what algorithms add to a step or leave out of it. Formulas and errors: "
         "docs/scale.md\n";
  return 0;
}

}  // namespace composer
