#include "cli/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/run/assemble.h"
#include "composer/run/automatic_values.h"
#include "composer/run/build.h"
#include "composer/run/captured_steps.h"
#include "composer/run/rank_threads.h"
#include "composer/run/starting_point.h"
#include "nn/network/fused_norm.h"
#include "nn/network/layer.h"
#include "nn/network/precision.h"
#include "nn/network/spatial_parallel.h"

namespace composer {
namespace {

/// The most rows of the printed schedule; further changes are thinned out.
constexpr size_t most_rows = 40;
/// The most batches that are examined: in a longer run only every n-th.
constexpr int64_t most_looks = 200000;

int64_t number_of_weights(const Model& model) {
  int64_t weights = 0;
  for (const auto& parameter : model.parameters()) weights += parameter.numel();
  return weights;
}

/// The precision that `amp` selects on this CPU, with the reason; empty for other precisions and
/// GPUs.
std::string what_amp_is(const TrainerOptions& options) {
  if (options.precision != "amp" || options.device == "gpu") return "";
  const auto [faster, reason] = choose_bf16(bf16_instructions(), bf16_speedup);
  return std::string(" (on this CPU ") + (faster ? "bf16: " : "fp32: ") + reason + ")";
}

/// Why a norm layer does not fuse on a CPU for inputs of this type; empty if it does.
std::string why_step_by_step(at::ScalarType type) {
  NormCall call;
  call.input = at::ones({2, 1, 1, 1}, type);
  call.running_mean = at::zeros({1}), call.running_var = at::ones({1});
  return why_step_by_step(call);
}

/// Prints how many norm layers are fused with the addition and activation after them, and why
/// others are not.
void print_norms(std::ostream& out, const Model& model, const TrainerOptions& options) {
  const auto& precision = options.precision;
  const bool amp = precision == "amp", bf16 = precision == "amp_bf16" || precision == "bf16";
  const auto type = precision == "amp_fp16" ? at::kHalf : bf16 ? at::kBFloat16 : at::kFloat;
  const bool on_gpu = options.device == "gpu";
  const auto of_run = on_gpu ? "" : why_step_by_step(type);
  const std::string where = on_gpu
                                ? "GPU, where images are channels_last of a multiple of 8 channels"
                                : std::string("CPU, ") + (amp    ? "bf16 or fp32"
                                                          : bf16 ? "bf16"
                                                                 : "fp32");
  std::map<std::string, int64_t> layers;
  for (const auto& module : model.modules()) {
    const auto* const norm = dynamic_cast<const NormLayer*>(module.get());
    if (norm == nullptr) continue;
    const auto why = norm->why_separate().empty() ? of_run : norm->why_separate();
    const auto description = norm->describe();
    const auto kind = description.substr(0, description.find('('));
    ++layers[(why.empty() ? "in one operator: " : "one by one: ") + kind + " (" +
             (why.empty() ? where + (on_gpu ? fusions_off_text() : "") : why) + "), "];
  }
  for (const auto& [text, count] : layers)
    out << "norm, addition and activation " << text << count
        << (count == 1 ? " layer\n" : " layers\n");
}

/// Prints the algorithms that change images in the loader.
void print_image_changes(std::ostream& out, const Engine& engine, const State& state) {
  std::string loader;
  for (const auto& [name, component, events] : engine.algorithms()) {
    if (component->sample_transform(state)) loader += ' ' + name;
    if (component->image_sizes(state)) loader.insert(0, ' ' + name);  // decoding comes first
  }
  if (!loader.empty()) out << "  in the loader, each image:" << loader << '\n';
}

void print_events(std::ostream& out, Engine& engine, const State& state) {
  out << "\nevents (who runs, in order):\n";
  print_image_changes(out, engine, state);
  for (size_t i = 0; i < event_count; ++i) {
    const auto names = engine.order(static_cast<Event>(i));
    if (names.empty()) continue;
    out << "  " << event_names[i] << ":";
    for (const auto& name : names) out << ' ' << name;
    out << '\n';
  }
}

void print_ranks(std::ostream& out, const TrainerOptions& options, const RunContext& context) {
  const auto& environment = context.environment;
  const auto threads = rank_threads(options, context);
  out << "ranks: " << environment.size;
  if (environment.local_size < environment.size)
    out << ", " << environment.local_size << " a machine";
  out << (environment.size > 1 ? ", each with " : ", with ") << threads.compute << " compute and "
      << threads.loader << " loader threads\n";
  if (options.spatial_ranks == 1) return;
  const auto of_image = std::to_string(options.spatial_ranks);
  out << "spatial_ranks: " << of_image << ", so that " << of_image
      << " neighbouring ranks have the rows of the same images";
  if (environment.size == 1)
    out << "; to be started with a multiple of " << of_image << " ranks (composer -n " << of_image
        << ")";
  else
    out << ", in " << environment.size / options.spatial_ranks << " shares of a batch";
  out << '\n';
}

void print_cuda_graph(std::ostream& out, const TrainerOptions& options, const Engine& engine,
                      bool alone) {
  if (options.device == "cpu") return;
  out << "cuda_graph: " << options.cuda_graph;
  if (options.cuda_graph != "false") {
    const auto reason = prevents_graph_capture(engine, alone);
    out << (reason.empty() ? ", on a GPU each step is recorded once and replayed"
                           : ", off: " + reason);
  }
  out << '\n';
}

using PlannedRow = std::vector<std::pair<std::string, double>>;

/// Whether the value changes in steps, as sizes do. A row of the schedule begins at each such
/// change; values that change all the time, such as the learning rate, are only shown.
bool steps(const std::string& name) {
  return name.ends_with("/height") || name.ends_with("/width") || name.ends_with("/batch_size") ||
         name.ends_with("/keep") || name.ends_with("/layers_trained");
}

bool same_step(const PlannedRow& a, const PlannedRow& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (steps(a[i].first) && a[i].second != b[i].second) return false;
  return a.size() == b.size();
}

PlannedRow row_at(const Recipe& recipe, const std::vector<std::shared_ptr<Scheduler>>& schedulers,
                  Engine& engine, State& state, double lr) {
  PlannedRow row{{"lr", lr * multiplier(schedulers, state.time, state.run_length,
                                        recipe.options.scale_schedule_ratio)}};
  for (const auto& algorithm : engine.algorithms())
    for (auto& value : algorithm.component->planned(state)) row.push_back(std::move(value));
  return row;
}

void print_row(std::ostream& out, const Timestamp& time, const PlannedRow& row) {
  out << "  epoch " << time.epoch << " batch " << time.batch << ":";
  for (const auto& [name, value] : row) out << "  " << name << ' ' << std::round(value * 1e6) / 1e6;
  out << '\n';
}

void print_evaluations(std::ostream& out, const Recipe& recipe, const RunContext& context,
                       const Model& model) {
  if (recipe.val_dataset) {
    const auto length = epoch_length(recipe, context, /*training=*/false);
    if (length.note.empty()) check_targets(recipe, model, /*training=*/false);
    out << "evaluation: " << quantity(length.samples, "sample") << ", " << length.image.height
        << " x " << length.image.width << length.note << '\n';
  }
  for (const auto& [name, dataset, options] : recipe.evaluators)
    out << "evaluators." << name << ": " << dataset->name() << ", every "
        << options.eval_interval.value_or(recipe.options.eval_interval).str() << '\n';
}

void print_schedule(std::ostream& out, const Recipe& recipe, Engine& engine, State& state) {
  const auto total = state.run_length.total_batches();
  out << "\nschedule:\n";
  const auto schedulers = build_schedulers(recipe);
  for (const auto& warning :
       check(schedulers, state.run_length, recipe.options.scale_schedule_ratio))
    out << "  warning: " << warning << '\n';
  if (!total) {
    out << "  runs for " << state.run_length.max_duration.str()
        << ", however many batches these are\n";
    return;
  }
  const double lr = recipe.optimizer->build()->lr();
  std::vector<std::pair<Timestamp, PlannedRow>> rows;
  PlannedRow last;
  const int64_t step = *total / most_looks + 1;
  for (int64_t look = 0; look < *total + step - 1; look += step) {
    const int64_t batch = std::min(look, *total - 1);
    state.time = state.run_length.at_batch(batch);
    auto row = row_at(recipe, schedulers, engine, state, lr);
    const bool shown =
        batch == 0 || batch + 1 == *total || batch * 10 / *total != (batch - step) * 10 / *total;
    if (shown || !same_step(row, last)) rows.emplace_back(state.time, row);
    last = std::move(row);
  }
  const size_t stride = (rows.size() + most_rows - 1) / most_rows;
  for (size_t i = 0; i < rows.size(); ++i)
    if (i % stride == 0 || i + 1 == rows.size()) print_row(out, rows[i].first, rows[i].second);
}

/// "resumes from ...: after epoch 2, batch 18; 9 of 27 batches are left".
std::string resumption_line(const StartingPoint& start, const Timestamp& time, RunLength schedule) {
  schedule.take_up(time);
  std::string line = "resumes from: " + start.path.string() + ", after epoch " +
                     std::to_string(time.epoch) + ", batch " + std::to_string(time.batch) + "; ";
  if (time.batch > 0 && schedule.finished(time)) return line + "nothing is left to train\n";
  const auto total = schedule.total_batches();
  if (!total) return line + "runs for " + schedule.max_duration.str() + " in all\n";
  return line + std::to_string(*total - schedule.position(time)) + " of " +
         quantity(*total, "batch") + (*total == 1 ? " is left\n" : " are left\n");
}

/// Prints where the run resumes. Throws as training does for a checkpoint that does not fit.
void print_start(std::ostream& out, const StartingPoint& start, const TrainerOptions& options,
                 const RunNow& now, bool data_were_read, const State& state) {
  const auto& recipe = now.recipe;
  if (start.path.empty()) return;
  check_network(start, read_provenance(start.path), *state.model, options, /*trains=*/true, recipe);
  if (!start.everything) {
    load_weights(*state.model, start.path, {options.load_ignore, options.load_strict});
    return;
  }
  // Checkpoints of the run itself were verified when they were found.
  if (!start.own) verify_files(start.path, read_manifest(start.path));
  assign_weights(*state.model, read_weights(start.path), start.path.string());
  const auto checkpoint = read_checkpoint_facts(start.path);
  auto schedule = state.run_length;
  if (data_were_read) {
    for (const auto& change : recipe_changes(checkpoint.recipe, recipe)) log::info(change);
    check_goes_on(start, checkpoint, options, schedule, now);
  } else {
    schedule.batches_per_epoch = checkpoint.batches_per_epoch;
    schedule.samples_per_epoch = checkpoint.samples_per_epoch;
  }
  out << resumption_line(start, checkpoint.time, schedule);
}

}  // namespace

std::string plan(const Recipe& given, const RunContext& context) {
  const auto resolved = resolve_automatic_for_run(given, context, Purpose::plan);
  if (!resolved.unread.empty()) throw UserError(resolved.unread);
  const Recipe& recipe = resolved.recipe;
  std::ostringstream out;
  const auto& options = recipe.options;
  const auto newest = find_own_checkpoint(options);
  const bool reads_weights = !newest.empty() || !is_remote(options.load_path);
  if (newest.empty() && reads_weights) check_load_path(options.load_path);
  const auto length = epoch_length(recipe, context);

  State state;
  Logger logger;
  state.logger = &logger;
  state.image_size = length.image;
  state.seed = static_cast<uint64_t>(options.seed);
  state.run_length = planned_run_length(length.batches, length.samples, options);
  if (recipe.val_dataset) state.evaluation_sets.emplace_back(main_evaluation);
  for (const auto& set : recipe.evaluators) state.evaluation_sets.push_back(set.name);
  auto without_device = recipe;  // a plan does not need CUDA
  without_device.options.device = "cpu";
  auto parts = assemble_model(without_device, context);
  check_class_weights(without_device.options, *parts.model);
  if (length.note.empty()) check_targets(recipe, *parts.model, /*training=*/true);
  state.model = parts.model;
  Engine engine;
  for (auto& algorithm : parts.algorithms) engine.add(std::move(algorithm));
  for (auto& callback : parts.callbacks) engine.add(std::move(callback));

  const int64_t weights = number_of_weights(*state.model);
  for (const auto& choice : resolved.choices) out << "auto: " << choice << '\n';
  out << "model: " << recipe.model->name() << ", " << weights << " parameters\n"
      << "train_dataset: " << recipe.train_dataset->name() << ", "
      << quantity(length.samples, "sample") << " an epoch, " << length.image.height << " x "
      << length.image.width << length.note << '\n'
      << "max_duration: " << state.run_length.max_duration.str() << ", "
      << quantity(length.batches, "batch") << " an epoch";
  if (const auto total = state.run_length.total_batches()) out << ", " << *total << " in all";
  out << "\nprecision: " << options.precision << what_amp_is(options)
      << ", device: " << options.device << '\n';
  print_evaluations(out, recipe, context, *parts.model);
  if (options.grad_accum.automatic)
    out << "grad_accum: auto: one microbatch, and twice as many whenever memory does not suffice\n";
  print_ranks(out, options, context);
  print_cuda_graph(out, options, engine, context.environment.size == 1);

  engine.run(Event::init, state);
  if (options.spatial_ranks > 1) check_by_rows(*state.model);
  // Without data, auto keys have stand-ins, which the weights need not fit.
  if (recipe.automatic.empty() && reads_weights)
    print_start(
        out, starting_point(options, /*trains=*/true, newest), options,
        {parts.recipe,
         parts.model->objective().takes_values() ? std::vector<std::string>() : length.class_names,
         length.digest},
        length.note.empty(), state);
  if (!options.freeze.empty())
    out << "freeze: " << state.model->freeze(options.freeze) << " of "
        << state.model->parameters().size() << " parameters are not trained\n";
  for (const auto& algorithm : engine.algorithms()) {
    const auto changes = algorithm.component->report();
    if (changes.empty()) continue;
    out << '\n'
        << algorithm.name << " changes " << changes.size()
        << (changes.size() == 1 ? " layer" : " layers") << ":\n";
    for (const auto& change : changes) out << "  " << change << '\n';
  }
  if (const auto left = number_of_weights(*state.model); left != weights)
    out << "\nthe model then has " << left << " parameters\n";
  out << '\n';
  print_norms(out, *state.model, options);
  print_events(out, engine, state);
  print_schedule(out, recipe, engine, state);
  return out.str();
}

}  // namespace composer
