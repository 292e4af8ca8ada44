#include "scale/recipe_training.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/params/json.h"
#include "composer/run/assemble.h"
#include "composer/run/build.h"
#include "composer/run/image_fit.h"
#include "nn/network/cost.h"
#include "nn/network/graph.h"
#include "nn/network/layer.h"
#include "nn/network/model.h"
#include "nn/network/spatial_parallel.h"

namespace composer {
namespace {

/// The largest number of batches at which the run's image size is looked up.
constexpr int64_t most_size_looks = 20000;
/// 2^53: a double holds all whole numbers up to here.
constexpr double most_images = 9007199254740992.0;

/// The loader's rate and the size of a sample for a kind of data set.
struct SampleFacts {
  double bytes;              ///< bytes of a stored sample; 0: nothing is stored
  double images_per_s_core;  ///< 0: loading costs nothing
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

/// The part of the training with images of this size, its batches not counted. `trains`: false for
/// an evaluation.
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

/// How often something happens that happens at each interval and at the run's end, but not twice
/// after a batch.
double times_in_run(const std::string& key, const Time& interval, const RunLength& run_length) {
  if (interval.value <= 0) return 0;
  if (interval.unit == TimeUnit::second)
    throw UserError(key + ": how often " + interval.str() +
                    " is depends on how fast the GPUs are; give it in ep, ba, sp or dur");
  return std::ceil(static_cast<double>(*run_length.total_batches()) /
                       std::max(1.0, run_length.batches(interval)) -
                   1e-9);
}

/// The number of views that the network sees of each evaluated image.
double views_of(const Recipe& recipe) {
  const auto flat = flat_recipe(dump(recipe));
  const std::map<std::string, nlohmann::ordered_json> keys(flat.begin(), flat.end());
  const std::string augmentation = "algorithms.test_time_augmentation.";
  const auto level = keys.find(augmentation + "level");
  if (level == keys.end()) return 1;
  return 1 + (level->second == 2 ? 5 : 1) * keys.at(augmentation + "share").get<double>();
}

/// Bytes of an element that is sent as `type` (grad_comm, weight_comm).
int64_t element_bytes(const std::string& type) { return type == "fp32" ? 4 : 2; }

/// What several ranks shard (find_division() of composer/run/trainer.cpp).
Divided divided_by(const std::string& parallelism, const Optimizer& optimizer) {
  if (parallelism == "fsdp") return Divided::weights;
  return parallelism == "zero1" && optimizer.keeps_state() ? Divided::state : Divided::nothing;
}

void add_evaluations(const Recipe& recipe, const RunContext& context, State& state,
                     RecipeTraining& subject) {
  auto& training = subject.training;
  const auto add = [&](const std::string& set, const std::optional<Time>& own,
                       const auto& length_of) {
    const double times = times_in_run((own ? set : "") + "eval_interval",
                                      own.value_or(recipe.options.eval_interval), state.run_length);
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

}  // namespace

RecipeTraining recipe_training(Recipe recipe, const RunContext& context, at::Device device) {
  auto& options = recipe.options;
  if (options.max_duration.unit == TimeUnit::second)
    throw UserError("max_duration: must be in ep, ba or sp to be planned, not " +
                    options.max_duration.str());
  check_bad_samples(options);
  const auto length = epoch_length(recipe, context);
  RecipeTraining subject;
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
  state.run_length = planned_run_length(length.batches, length.samples, options);
  const double images = state.run_length.batches(state.run_length.max_duration) *
                        static_cast<double>(options.train_batch_size);
  if (!(images <= most_images))
    throw UserError("max_duration: " + state.run_length.max_duration.str() +
                    " is more than 2^53 images, which cannot be counted");
  auto parts = assemble_model(recipe, context);
  state.model = parts.model;
  Engine engine;
  for (auto& algorithm : parts.algorithms) engine.add(std::move(algorithm));
  engine.run(Event::init, state);
  if (!options.freeze.empty()) state.model->freeze(options.freeze);
  if (options.spatial_ranks > 1) check_by_rows(*state.model);
  subject.run_length = state.run_length;
  const auto optimizer = recipe.optimizer->build();
  training.divided = divided_by(options.parallelism, *optimizer);
  training.weights = trained_parameters(*state.model);
  training.weight_bytes = element_bytes(options.weight_comm);
  training.spatial_ranks = options.spatial_ranks;

  const int64_t total = *state.run_length.total_batches(), stride = total / most_size_looks + 1;
  for (int64_t batch = 0; batch < total; batch += stride) {
    state.time = state.run_length.at_batch(batch);
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
  training.microbatches = options.grad_accum;  // auto: as many as the run begins with
  const double trained_bytes = training.weights.elements() * sizeof(float);
  training.state_numbers = static_cast<double>(optimizer->state_numbers());
  training.fixed_bytes = tensor_bytes(*state.model) - trained_bytes;
  training.checkpoint_bytes = tensor_bytes(*state.model) + trained_bytes * training.state_numbers;
  training.checkpoints =
      options.run_dir.empty()
          ? 0
          : std::max(1.0, times_in_run("save_interval", options.save_interval, state.run_length));
  const auto facts = facts_of(recipe);
  training.image_bytes = facts.bytes;
  training.images_per_s_per_core = facts.images_per_s_core;
  subject.loader_source = facts.rate_source, subject.storage_source = facts.bytes_source;
  training.seed = static_cast<uint64_t>(options.seed);
  return subject;
}

}  // namespace composer
