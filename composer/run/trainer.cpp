#include "composer/run/trainer.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/place.h"
#include "base/process/interrupt.h"
#include "composer/callbacks/callbacks.h"
#include "composer/callbacks/evaluation_recorder.h"
#include "composer/callbacks/histogram_monitor.h"
#include "composer/callbacks/own_callbacks.h"
#include "composer/callbacks/run_times.h"
#include "composer/callbacks/stragglers.h"
#include "composer/logging/console.h"
#include "composer/logging/image_folder.h"
#include "composer/recipe/evaluators.h"
#include "composer/run/run_description.h"
#include "composer/run/run_header.h"
#include "nn/device/device.h"
#include "nn/device/exception_text.h"
#include "nn/distributed/job_store.h"
#include "nn/network/divided_pass.h"
#include "nn/network/divided_weights.h"
#include "nn/network/metrics.h"
#include "nn/network/share.h"

namespace composer {
namespace {

/// Logged values of so many batches are written whatever log_interval says.
constexpr int64_t most_unwritten_batches = 100;

/// Batches in a row that loss scaling may need to find its scale.
constexpr int64_t scale_searches = 50;

Schedule schedule_of(const TrainerOptions& options, const Loader* loader) {
  Schedule schedule;
  schedule.batch_size = options.train_batch_size;
  if (options.max_duration.value > 0)
    schedule.max_duration = scale_duration(options.max_duration, options.scale_schedule_ratio);
  schedule.planned = schedule.max_duration;
  if (loader != nullptr) {
    schedule.batches_per_epoch = loader->batches_per_epoch();
    schedule.samples_per_epoch = loader->samples_per_epoch();
  }
  return schedule;
}

GradientSyncOptions gradient_sync_of(const TrainerOptions& options, const Engine& engine) {
  static const std::map<std::string, at::ScalarType> types{
      {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
  const auto leaves_out = [](const auto& member) {
    return member.component->leaves_out_parameters();
  };
  return {types.at(options.grad_comm), options.bucket_mb,
          std::ranges::any_of(engine.algorithms(), leaves_out), options.grad_accum.automatic};
}

/// UserError naming every algorithm with which a step cannot be repeated.
void refuse_repeated_steps(const Engine& engine, bool alone) {
  std::vector<std::string> problems;
  for (const auto& [name, algorithm, events] : engine.algorithms())
    if (const auto reason = algorithm->against_repeated_steps(alone); !reason.empty())
      problems.push_back("grad_accum: auto: algorithms." + name + ": " + reason +
                         "; give a number");
  if (!problems.empty()) throw UserError(problems);
}

/// UserError naming every algorithm that needs all weights on each rank.
void refuse_whole_weights(const Engine& engine) {
  std::vector<std::string> problems;
  for (const auto& [name, algorithm, events] : engine.algorithms())
    if (const auto reason = algorithm->against_divided_weights(); !reason.empty())
      problems.push_back("parallelism: fsdp: algorithms." + name + ": " + reason);
  if (!problems.empty()) throw UserError(problems);
}

template <class T>
std::set<std::string> names_of(const std::vector<Member<T>>& members) {
  std::set<std::string> names;
  for (const auto& member : members) names.insert(member.name);
  return names;
}

/// UserError where ranks do not share images as the options say.
void check_spatial_ranks(const TrainerOptions& options, const Ranks& ranks) {
  if (ranks.of_rows().size() == options.spatial_ranks) return;
  if (auto problem = spatial_ranks_problem(options.spatial_ranks, ranks.size()); !problem.empty())
    throw UserError(problem);
  throw UserError("TrainerParts: options.spatial_ranks is " +
                  std::to_string(options.spatial_ranks) +
                  ", and ranks are not divided so; call join(parts), or give it "
                  "ranks.divided_by_rows(options.spatial_ranks)");
}

/// The same on all ranks. `amp` is measured: a run that goes on keeps to what it began with, and
/// what a checkpoint was trained in is evaluated in that. loaded: of what is at `start`.
Precision choose_precision(const TrainerOptions& options, const State& state,
                           const StartingPoint& start, const Provenance& loaded) {
  const bool same_network = start.everything || !state.optimizer;
  const auto device = c10::DeviceTypeName(state.device.type(), /*lower_case=*/true);
  if (options.precision == "amp" && same_network && loaded.device == device &&
      !loaded.precision.empty()) {
    log::info("precision amp: " + loaded.precision + ", as " + start.path.string() +
              " was trained in");
    return resolve_precision(loaded.precision, state.device);
  }
  std::string word = options.precision;
  if (word == "amp" && state.ranks.first()) word = name(resolve_precision(word, state.device));
  return resolve_precision(state.ranks.broadcast(word), state.device);
}

/// What the ranks divide, and a line that says so.
Divided find_division(const TrainerOptions& options, const State& state) {
  const auto& word = options.parallelism;
  if (word == "ddp") return Divided::nothing;
  const bool weights = word == "fsdp";
  const auto idle = state.ranks.alone() ? "there is one rank"
                    : !weights && !state.optimizer->keeps_state()
                        ? "the optimizer keeps no state to divide"
                        : "";
  if (*idle != '\0') {
    log::warn("parallelism: " + word + " has no effect: " + idle);
    return Divided::nothing;
  }
  log::info("parallelism " + word + ": each rank keeps about 1/" +
            std::to_string(state.ranks.size()) + " of " +
            (weights ? "the weights, gradients and optimizer's state" : "the optimizer's state"));
  return weights ? Divided::weights : Divided::state;
}

bool divides_weights(const TrainerOptions& options, const Ranks& ranks) {
  return options.parallelism == "fsdp" && !ranks.alone();
}

/// Leaves each rank its part of the weights; null where they are not divided.
std::shared_ptr<DividedWeights> divided_weights(const TrainerOptions& options, const Engine& engine,
                                                const State& state) {
  if (!divides_weights(options, state.ranks)) return nullptr;
  const auto sync = gradient_sync_of(options, engine);
  const auto gathered = options.weight_comm == "bf16" ? at::kBFloat16 : at::kFloat;
  return std::make_shared<DividedWeights>(
      state.model, state.optimizer->owners(), state.ranks,
      DividedWeightsOptions{gathered, sync.dtype, sync.find_unused});
}

using FurtherEvaluators = std::vector<std::unique_ptr<Evaluator>>;

/// UserError where save_best names what a training run does not evaluate.
void check_save_best(const TrainerOptions& options, const State& state,
                     const FurtherEvaluators& further) {
  if (options.save_best.empty()) return;
  if (state.evaluation_sets.empty())
    throw UserError("save_best: needs a val_dataset to evaluate on");
  check_is_evaluated("save_best", options.save_best, state.model->metric_names(),
                     state.evaluation_sets);
  for (const auto& evaluator : further)
    if (evaluator->set() == evaluation_set(options.save_best) && evaluator->interval().value == 0)
      throw UserError("save_best: needs evaluations, but the eval_interval of " + evaluator->set() +
                      " is 0");
}

/// Parts made by hand have not been through a recipe.
void check_evaluators(const FurtherEvaluators& further) {
  std::set<std::string> names;
  for (const auto& evaluator : further) {
    if (const auto problem = evaluator_name_problem(evaluator->set()); !problem.empty())
      throw UserError("evaluators: '" + evaluator->set() + "' " + problem);
    if (!names.insert(evaluator->set()).second)
      throw UserError("evaluators: '" + evaluator->set() + "' is named twice");
    if (evaluator->loader() == nullptr)
      throw UserError("evaluators: '" + evaluator->set() + "' has no loader");
  }
}

/// wanted: whether one is added where the recipe names none.
void add_console(Logger& logger, bool progress_bar, bool wanted) {
  for (const auto& sink : logger.sinks())
    if (auto* console = dynamic_cast<ConsoleSink*>(sink.get())) {
      if (!progress_bar) console->leave_out_bar();
      return;
    }
  if (wanted) logger.add(std::make_shared<ConsoleSink>(ConsoleSink::Params{progress_bar}));
}

void log_running_metric(Logger& logger, const State& state, TrainStep& step) {
  logger.log("metrics/train/" + std::string(state.model->objective().running_metric()),
             step.metric().value());
}

/// Whether the exception that is being handled is one of these.
template <class Error>
bool handles() {
  try {
    throw;
  } catch (const Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// "signal 15 (SIGTERM)".
std::string signal_text(int number) {
  const char* name = ::sigabbrev_np(number);
  return "signal " + std::to_string(number) +
         (name == nullptr ? "" : std::string(" (SIG") + name + ")");
}

/// So that the corrected command may use its name.
void remove_folder(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::remove_all(folder, problem);
  if (problem) log::warn(folder.string() + ": cannot be removed: " + problem.message());
}

/// Parts made by hand have not been through a recipe, whose rules are these.
void check(TrainerOptions options) {
  const auto fields = collect(options);
  Problems problems;
  read_fields(write_fields(fields), fields, "", problems);
  if (!problems.empty()) throw UserError(lines(problems));
}

/// Whether the checkpoint that the run goes on from is its last.
bool nothing_left(const State& state) {
  return state.time.batch > 0 && state.schedule.finished(state.time);
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : options_(std::move(parts.options)),
      folder_(options_.run_dir, options_.run_name, options_.autoresume || !parts.ranks.first()),
      train_loader_(std::move(parts.train_loader)),
      device_(parts.device),
      schedulers_(std::move(parts.schedulers)),
      recipe_(std::move(parts.recipe)),
      console_(parts.console && parts.ranks.first()),
      summary_sink_(std::make_shared<SummarySink>()),
      evaluator_(state_, engine_, std::string(main_evaluation), std::move(parts.eval_loader),
                 options_.eval_interval),
      step_recorder_(std::move(parts.step_recorder)) {
  state_.model = std::move(parts.model);
  state_.optimizer = std::move(parts.optimizer);
  state_.schedule = schedule_of(options_, train_loader_.get());
  state_.class_names = std::move(parts.class_names);
  if (train_loader_) {
    state_.image_size = train_loader_->image_size();
    state_.normalization = train_loader_->normalization();
  }
  state_.seed = static_cast<uint64_t>(options_.seed);
  state_.grad_accum = options_.grad_accum;
  state_.ranks = std::move(parts.ranks);
  state_.logger = &logger_;
  state_.recompute_gradients = [this] { step_->recompute_gradients(); };
  for (auto& algorithm : parts.algorithms) engine_.add(std::move(algorithm));
  for (auto& callback : parts.callbacks) engine_.add(std::move(callback));
  for (auto& set : parts.evaluators)
    further_evaluators_.push_back(
        std::make_unique<Evaluator>(state_, engine_, std::move(set.name), std::move(set.loader),
                                    set.interval.value_or(options_.eval_interval)));
  if (train_loader_)
    for (const auto* evaluator : evaluators()) state_.evaluation_sets.push_back(evaluator->set());
  logger_.add(summary_sink_);
  if (state_.ranks.first())
    for (auto& sink : parts.loggers) logger_.add(std::move(sink));
}

void Trainer::prepare() {
  if (std::exchange(prepared_, true)) return;
  if (const auto place = place_of_process(); place.size > 1 && state_.ranks.alone())
    throw UserError("rank " + std::to_string(place.rank) + " of " + std::to_string(place.size) +
                    ": TrainerParts has no ranks, each process would train by itself; call "
                    "join(parts) before the Trainer is made");
  state_.device = device_ ? *device_ : resolve_device(options_.device);
  if (!state_.device.is_cpu()) at::accelerator::setDeviceIndex(state_.device.index());
  if (train_loader_) data_digest_ = train_loader_->digest();
  const auto start = find_start();
  state_.precision = choose_precision(options_, state_, start, loaded_);
  set_float32_rounding(state_.precision);
  set_deterministic(options_.deterministic_mode);
  step_.emplace(state_, engine_, options_.grad_clip_norm, gradient_sync_of(options_, engine_));
  if (train_loader_ && options_.grad_accum.automatic)
    refuse_repeated_steps(engine_, state_.ranks.alone());
  check_evaluators(further_evaluators_);
  if (train_loader_) check_save_best(options_, state_, further_evaluators_);
  if (train_loader_)
    for (const auto& warning : check(schedulers_, state_.schedule, options_.scale_schedule_ratio))
      log::warn(warning);

  // Surgery may not see the optimizer: it is attached to what surgery leaves.
  auto optimizer = std::exchange(state_.optimizer, nullptr);
  engine_.run(Event::init, state_);
  if (!state_.ranks.of_rows().alone()) check_by_rows(*state_.model);
  if (!options_.freeze.empty()) {
    const auto frozen = state_.model->freeze(options_.freeze);
    log::info("freeze: " + std::to_string(frozen) + " of " +
              std::to_string(state_.model->parameters().size()) + " parameters are not trained");
    if (start.path.empty())
      log::warn("freeze: what is frozen stays as it was drawn: no load_path is given");
  }
  state_.model->to(state_.device);
  state_.optimizer = std::move(optimizer);
  if (state_.optimizer) {
    const auto divided = find_division(options_, state_);
    if (divided == Divided::weights) refuse_whole_weights(engine_);
    state_.optimizer->attach(*state_.model, state_.ranks, divided);
  }
  restore(start);
  // Draws of weights may differ in their last bits between processors.
  state_.ranks.broadcast(state_.model->parameters());
  state_.ranks.broadcast(state_.model->buffers());
}

std::vector<Evaluator*> Trainer::evaluators() {
  std::vector<Evaluator*> all;
  if (evaluator_.loader() != nullptr) all.push_back(&evaluator_);
  for (const auto& evaluator : further_evaluators_) all.push_back(evaluator.get());
  return all;
}

/// Everything that logs, and the recipe in the run's folder.
void Trainer::open_run() {
  // Of a run that is over already, what it was trained by stays.
  const bool stays =
      nothing_left(state_) && std::filesystem::exists(folder_.path() / "hparams.yaml");
  if (state_.ranks.first()) folder_.write_recipe(stays ? "" : recipe_);
  add<CheckpointSaver>(own_callbacks::save_interval,
                       CheckpointSaver::Params{options_.save_interval});
  if (!state_.ranks.alone()) add<Stragglers>(own_callbacks::ranks, options_.log_interval);
  if (folder_.kept()) {
    writer_.emplace(
        folder_.checkpoints(), state_.ranks,
        CheckpointWriter::Options{options_.save_async, options_.save_num_checkpoints_to_keep});
    if (state_.ranks.first() && !options_.save_remote.empty()) open_uploads();
    if (state_.ranks.first()) {
      logger_.add(std::make_shared<JsonlSink>());
      logger_.add(std::make_shared<ImageFolder>());
    }
  }
  add_console(logger_, options_.progress_bar, std::exchange(console_, false));
  const auto histograms = logger_.histogram_interval(state_.schedule);
  if (divides_weights(options_, state_.ranks) && histograms.value > 0)
    log::info("parallelism: fsdp: no histograms are logged: no rank has all weights");
  else if (histograms.value > 0)
    add<HistogramMonitor>(own_callbacks::histograms, histograms);
  loss_guard_ = std::make_shared<LossGuard>(step_->scaler().enabled() ? scale_searches : 0);
  logger_.add(loss_guard_);
  const auto folder = folder_.kept() ? folder_.path() : std::filesystem::path();
  auto header = run_header(state_, options_, *train_loader_, evaluator_.loader(), folder);
  for (const auto& evaluator : further_evaluators_)
    header.insert(header.end() - 1, evaluation_line(*evaluator->loader(), evaluator->set()));
  if (folder_.kept()) describe_run(header);
  std::vector<std::string> evaluated;
  for (const auto* evaluator : evaluators())
    if (evaluator->evaluated_batch() == state_.time.batch) evaluated.push_back(evaluator->set());
  logger_.open(
      {folder, folder_.run_name(), state_.schedule, state_.time, evaluated, header, recipe_});
}

void Trainer::describe_run(const std::vector<std::string>& header) {
  if (state_.ranks.first())
    write_run_description(folder_.path(), header, state_.class_names, engine_.algorithms(),
                          state_.schedule);
  if (evaluator_.loader() != nullptr)
    add<EvaluationRecorder>(own_callbacks::evaluation_recorder, folder_.path(),
                            evaluator_.loader()->normalization());
  auto callbacks = names_of(engine_.callbacks());
  callbacks.insert(own_callbacks::run_times);
  add<RunTimes>(own_callbacks::run_times, names_of(engine_.algorithms()), std::move(callbacks));
}

void Trainer::open_profiler() {
  profiler_.emplace(Profiler::Options{.what = options_.profiler,
                                      .folder = folder_.kept() ? folder_.path() / "traces"
                                                               : std::filesystem::path(),
                                      .device = state_.device,
                                      .asked_begins = [this] { requests_.serve("trace"); },
                                      .asked_ends =
                                          [this](bool done, const std::string& text) {
                                            requests_.answer("trace", {done, text});
                                          }},
                    state_.ranks);
}

Summary Trainer::fit() {
  check(options_);
  if (!train_loader_ || !state_.optimizer)
    throw UserError("TrainerParts: to fit, a train_loader and an optimizer are needed");
  check_spatial_ranks(options_, state_.ranks);
  prepare();
  if (!lock_ && state_.ranks.first()) lock_ = folder_.claim();
  if (state_.ranks.first() && folder_.kept()) tell_run_folder(folder_.path());
  const SaveReports reports;
  const auto lock = std::move(lock_);
  if (state_.ranks.first()) earlier_ = folder_.read_summary();
  evaluated_ = false;
  requests_ = RunRequests(lock.get());
  const InterruptGuard guard;
  try {
    check_store();
    open_profiler();
    open_run();
    train();
    profiler_.reset();
    writer_.reset();
    uploads_.reset();
    logger_.flush();
    check_loss();
    const auto end =
        signal_ == 0 ? RunEnd{"completed", ""} : RunEnd{"interrupted", signal_text(signal_)};
    auto summary = summarize(end);
    if (summary.message != end.message && state_.ranks.first()) log::warn(summary.message);
    if (state_.ranks.first() && summary_is_due()) folder_.write_summary(summary);
    tell_of_end(end);
    return summary;
  } catch (...) {
    const RunEnd end{"failed", text_of(std::current_exception())};
    state_.ranks.abort();
    profiler_.reset();
    const auto note = [](auto&& what) {
      try {
        what();
      } catch (const std::exception& second) {
        log::warn(std::string("the failure below could not be noted in the run folder: ") +
                  second.what());
      }
    };
    note([&] { logger_.flush(); });
    note([&] {
      if (writer_) writer_->give_up();
    });
    if (lock) lock->free_room();
    if (state_.ranks.first()) note([&] { folder_.write_summary(summarize(end)); });
    tell_of_end(end);
    note([&] { give_up_uploads(end, !handles<PeerError>()); });
    if (lock && lock->made_folder() && clock_.batches() == 0 && handles<UserError>())
      remove_folder(folder_.path());
    throw;
  }
}

void Trainer::tell_of_end(const RunEnd& end) noexcept {
  for (const auto& [name, callback, events] : engine_.callbacks()) try {
      callback->run_end(state_, end);
    } catch (...) {
      log::warn("callbacks." + name + ": at the run's end: " + text_of(std::current_exception()));
    }
  logger_.close(end);
}

void Trainer::train() {
  clock_.start(state_.time.seconds);
  state_.step_is_final = !engine_.acts_before_last(Event::batch_end);
  engine_.run(Event::fit_start, state_);
  state_.divided_weights.reset();  // of another fit()
  // From here on: what came before may write to all weights.
  state_.divided_weights = divided_weights(options_, engine_, state_);
  if (nothing_left(state_))
    log::warn("nothing is left to train: the checkpoint is at epoch " +
              std::to_string(state_.time.epoch) + ", batch " + std::to_string(state_.time.batch) +
              ", max_duration is " + state_.schedule.max_duration.str());
  agree();
  if (state_.time.batch > 0) {
    evaluate_if_due(false);
    if (state_.time.batch_in_epoch == 0) evaluate_if_due(true);
  }
  schedule_learning_rate();
  start_loader();
  step_->replay_by(step_graphs(options_.cuda_graph, engine_, state_, step_recorder_));
  if (state_.ranks.first() && !stopping()) folder_.remove_summary();
  while (!stopping()) train_epoch();
  profiler_->finish();
  if (!engine_.control().stop_reason().empty())
    log::info("stopped: " + engine_.control().stop_reason());
  if (signal_ == 0) {
    engine_.run(Event::fit_end, state_);
    logger_.commit("epoch", state_.time);
  }
  const auto changes_at_the_end = [](const auto& algorithm) {
    return algorithm.events[static_cast<size_t>(Event::fit_end)];
  };
  finish_save();
  save(signal_ == 0 && std::ranges::any_of(engine_.algorithms(), changes_at_the_end));
  finish_save();
  finish_uploads();
  requests_.look(engine_.control(), /*now=*/true);
  requests_.answer_all(saved());
  wait_for_device();
  if (state_.divided_weights) state_.divided_weights->make_whole();
  state_.time.seconds = clock_.seconds();
}

void Trainer::start_loader() {
  SizePlan plan;
  std::string planner;
  for (const auto& algorithm : engine_.algorithms()) {
    if (auto transform = algorithm.component->sample_transform(state_))
      train_loader_->add_transform([transform = std::move(transform), name = algorithm.name](
                                       const MutableImage& image, const SamplePlace& place) {
        try {
          transform(image, place);
        } catch (...) {
          rethrow_of("algorithms." + name, "sample_transform");
        }
      });
    auto sizes = algorithm.component->image_sizes(state_);
    if (!sizes) continue;
    if (plan)
      throw UserError("algorithms: " + planner + " and " + algorithm.name +
                      " both decide the size of images; use one of them");
    plan = std::move(sizes), planner = algorithm.name;
  }
  const auto& time = state_.time;
  // The loader counts batches by its own epochs; a run that once had others is elsewhere.
  const int64_t ahead = state_.schedule.ahead_of_epochs;
  if (plan) expect_many_image_sizes();
  if (plan && ahead != 0) plan = [plan, ahead](int64_t batch) { return plan(batch + ahead); };
  train_loader_->start(time.epoch, time.batch_in_epoch, std::move(plan));
  feed_.emplace(*train_loader_, state_.device, state_.model->objective());
  const auto channels = std::ssize(train_loader_->normalization().mean);
  input_type_ = input_type(engine_, state_, state_.image_size, channels, Event::after_dataloader,
                           Event::before_forward);
}

bool Trainer::stopping() {
  return signal_ != 0 || state_.schedule.finished(state_.time) ||
         !engine_.control().stop_reason().empty();
}

void Trainer::train_epoch() {
  state_.model->train();
  if (state_.time.batch_in_epoch == 0) {
    step_->metric().reset();
    engine_.run(Event::epoch_start, state_);
  }
  const auto whole = [&] {
    return state_.time.batch_in_epoch >= state_.schedule.batches_per_epoch;
  };
  while (!whole()) {
    profiler_->step(state_.time.batch, state_);
    const double begin = steady_seconds(), waited_before = feed_->waited();
    const int64_t samples_before = state_.time.sample;
    train_batch(next_training_batch());
    clock_.count(state_.time.sample - samples_before, steady_seconds() - begin,
                 feed_->waited() - waited_before);

    requests_.look(engine_.control());
    agree();
    if (writer_) conclude(writer_->poll());
    check_uploads();
    evaluate_if_due(false);
    engine_.run(Event::batch_checkpoint, state_);
    agree();
    if (!whole()) save_if_asked();
    if (stopping()) break;
  }
  if (whole()) end_epoch();
}

RawBatch Trainer::next_training_batch() {
  const bool first = clock_.batches() == 0;
  if (first) logger_.progress({Progress::Phase::waiting, state_.time});
  auto batch = feed_->next();
  if (!batch) batch = feed_->next();  // the end of the epoch before
  if (!batch)
    throw RunError("the training loader gave no batch where its epochs have " +
                   std::to_string(state_.schedule.batches_per_epoch));
  if (first) logger_.progress({Progress::Phase::training, state_.time});
  return std::move(*batch);
}

void Trainer::share_clock() { state_.time.seconds = state_.ranks.broadcast(clock_.seconds()); }

void Trainer::agree() {
  signal_ = received_signal();
  const int64_t traced = requests_.take_steps_to_trace();
  if (state_.ranks.alone()) {
    if (profiler_) profiler_->trace_next(traced);
    return;
  }
  auto& control = engine_.control();
  const bool checkpoint = control.take_checkpoint_request(), stop = !control.stop_reason().empty();
  const auto asked = at::tensor({static_cast<int64_t>(signal_), static_cast<int64_t>(checkpoint),
                                 static_cast<int64_t>(stop), traced});
  const auto of_all = state_.ranks.gather(asked);
  const auto any = std::get<0>(of_all.max(0));
  signal_ = any[0].item<int>();
  if (any[1].item<bool>()) control.request_checkpoint();
  if (any[2].item<bool>() && !stop)
    control.request_stop("rank " + std::to_string(of_all.select(1, 2).argmax().item<int64_t>()) +
                         " asked for it");
  if (profiler_) profiler_->trace_next(any[3].item<int64_t>());
}

void Trainer::train_batch(RawBatch batch) {
  const auto [first_sample, samples] = take_share(batch, state_.ranks);
  state_.first_sample = first_sample;
  state_.loader = train_loader_.get();
  state_.indices = batch.indices;
  state_.raw_batch = std::exchange(batch, {});
  engine_.run(Event::augment, state_);
  state_.batch = normalized(std::exchange(state_.raw_batch, {}), train_loader_->normalization(),
                            state_, input_type_);
  engine_.run(Event::after_dataloader, state_);
  engine_.run(Event::batch_start, state_);

  const int64_t sent = step_->sent_bytes();
  const auto loss = step_->run();
  profiler_->mark_memory(state_);
  logger_.log("loss/train", loss);
  if (options_.grad_accum.automatic)
    logger_.log("grad_accum", static_cast<double>(state_.grad_accum));
  if (!state_.ranks.alone())
    logger_.log("comm/bytes", static_cast<double>(step_->sent_bytes() - sent));
  share_clock();
  state_.time.next_batch(samples);
  if (!stopping()) feed_->fetch_ahead();
  if (loss.is_cpu()) loss_guard_->see(state_.time, loss.item<double>());
  schedule_learning_rate();
  const bool due = state_.schedule.due(options_.log_interval, state_.time, false);
  if (due) log_running_metric(logger_, state_, *step_);
  engine_.run(Event::batch_end, state_);
  RECORD_USER_SCOPE("log");
  logger_.commit("batch", state_.time);
  if (due || state_.time.batch % most_unwritten_batches == 0) logger_.write();
  check_loss();
  logger_.progress({Progress::Phase::training, state_.time});
}

void Trainer::check_loss() {
  const auto bad = loss_guard_->take();
  if (!bad) return;
  const auto what = std::string("the loss is ") + (std::isnan(bad->loss) ? "NaN" : "infinite") +
                    " at batch " + std::to_string(bad->time.batch) + " (epoch " +
                    std::to_string(bad->time.epoch + 1) + ")";
  if (options_.on_nan == "ignore") return log::warn(what + "; on_nan: ignore goes on");
  throw RunError(
      what + ": training cannot recover. Try a lower learning rate (it is " +
      c10::str(state_.optimizer->lr()) +
      " now), a longer warm-up, --grad_clip_norm 1 or --precision fp32. Checkpoints hold finite "
      "weights only. --on_nan ignore would go on");
}

void Trainer::end_epoch() {
  const auto counted = [&](const auto& work) {
    const double begin = steady_seconds();
    work();
    clock_.add(steady_seconds() - begin);
  };
  counted([&] {
    state_.time.next_epoch();
    schedule_learning_rate();
    log_running_metric(logger_, state_, *step_);
    engine_.run(Event::epoch_end, state_);
    logger_.commit("epoch", state_.time);
  });
  agree();
  evaluate_if_due(true);
  counted([&] { logger_.write(); });  // which may wait for a GPU
  engine_.run(Event::epoch_checkpoint, state_);
  agree();
  save_if_asked();
}

void Trainer::schedule_learning_rate() {
  state_.optimizer->set_lr_multiplier(
      multiplier(schedulers_, state_.time, state_.schedule, options_.scale_schedule_ratio));
}

void Trainer::evaluate_if_due(bool epoch_end) {
  const auto last = [&] { return signal_ == 0 && stopping(); };
  const bool ended = last();
  Metrics metrics;
  if (!run_evaluations(epoch_end, ended, metrics)) return;
  // One set's evaluation may end the run, and others have not been evaluated on at its end.
  if (!further_evaluators_.empty() && !ended) {
    agree();
    if (last()) run_evaluations(epoch_end, true, metrics);
  }
  evaluated_ = evaluated_ || !metrics.empty();
  logger_.commit("eval", state_.time);
  save_if_best(metrics);
}

bool Trainer::run_evaluations(bool epoch_end, bool last, Metrics& metrics) {
  bool any = false;
  for (auto* const evaluator : evaluators()) {
    if (!evaluator->due(epoch_end, last)) continue;
    any = true;
    run_evaluation(*evaluator);
    for (const auto& [name, value] : state_.eval_metrics) metrics.emplace_back(name, value);
  }
  return any;
}

Trainer::Metrics Trainer::run_evaluation(Evaluator& evaluator, ConfusionMatrix* confusion) {
  wait_for_device();
  state_.ranks.broadcast(state_.model->buffers());
  auto metrics = evaluator.run(confusion);
  if (clock_.started()) share_clock();
  if (!metrics.empty()) evaluator.done_at(state_.time.seconds);
  return metrics;
}

Trainer::Metrics Trainer::evaluate(ConfusionMatrix* confusion) {
  prepare();
  add_console(logger_, options_.progress_bar, std::exchange(console_, false));
  const InterruptGuard guard;
  auto metrics = run_evaluation(evaluator_, confusion);
  logger_.commit("eval", state_.time);
  agree();
  return metrics;
}

Trainer::Metrics Trainer::evaluate_all(ConfusionMatrix* confusion) {
  prepare();
  add_console(logger_, options_.progress_bar, std::exchange(console_, false));
  const InterruptGuard guard;
  Metrics metrics;
  for (auto* const evaluator : evaluators()) {
    auto* const counted = evaluator == &evaluator_ ? confusion : nullptr;
    for (const auto& [name, value] : run_evaluation(*evaluator, counted))
      metrics.emplace_back("metrics/" + evaluator->set() + "/" + name, value);
    agree();
    if (signal_ != 0) break;
  }
  logger_.commit("eval", state_.time);
  return metrics;
}

void Trainer::predict(Loader& loader, const Evaluator::Receive& receive) {
  prepare();
  evaluator_.predict(loader, receive);
}

void Trainer::wait_for_device() {
  if (state_.device.is_cpu()) return;
  const double begin = steady_seconds();
  synchronize(state_.device);
  clock_.add(steady_seconds() - begin);
}

Summary Trainer::summarize(const RunEnd& end) {
  Summary summary;
  summary.status = end.status;
  summary.message = end.message;
  if (end.status != "failed" && folder_.kept() && !save_problem_.empty() &&
      saved_batch_ != state_.time.batch)
    summary.message += (summary.message.empty() ? "" : "; ") +
                       ("there is no checkpoint of its end: " + save_problem_);
  summary.stopped = engine_.control().stop_reason();
  summary.signal = signal_;
  summary.world_size = state_.ranks.size();
  summary.grad_accum = state_.grad_accum;
  summary.time = state_.time;
  summary.samples_per_second = clock_.samples_per_second();
  summary.wait_fraction = clock_.wait_fraction();
  summary.metrics = summary_sink_->last();
  summary.best_metrics = summary_sink_->best();
  summary.device = describe(state_.device);
  summary.precision = std::string(name(state_.precision));
  summary.peak_memory_bytes = peak_memory_bytes(state_.device);
  if (clock_.batches() == 0 && earlier_) {  // what training is measured by is of the process before
    summary.samples_per_second = earlier_->samples_per_second;
    summary.wait_fraction = earlier_->wait_fraction;
    summary.peak_memory_bytes = std::max(summary.peak_memory_bytes, earlier_->peak_memory_bytes);
  }
  return summary;
}

bool Trainer::summary_is_due() const {
  return clock_.batches() > 0 || evaluated_ || !earlier_ || earlier_->status != "completed";
}

}  // namespace composer
