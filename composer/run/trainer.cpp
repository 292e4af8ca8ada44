#include "composer/run/trainer.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/record_function.h>

#include "base/error.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "composer/callbacks/callbacks.h"
#include "composer/callbacks/evaluation_recorder.h"
#include "composer/callbacks/monitors.h"
#include "composer/callbacks/own_callbacks.h"
#include "composer/logging/console.h"
#include "composer/recipe/recipe.h"
#include "composer/run/build.h"
#include "composer/run/run_description.h"
#include "nn/device/device.h"
#include "nn/device/exception_text.h"
#include "nn/network/batch.h"
#include "nn/network/metrics.h"
#include "nn/network/sharded_parameters.h"
#include "nn/network/spatial_parallel.h"

namespace composer {
namespace {

/// Logged values are written at least once in this many batches, whatever log_interval is.
constexpr int64_t most_unwritten_batches = 100;

/// Bad batches in a row that are tolerated while loss scaling looks for its scale.
constexpr int64_t scale_searches = 50;

GradientSyncOptions gradient_sync_of(const TrainerOptions& options, const Engine& engine) {
  static const std::map<std::string, at::ScalarType> types{
      {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
  const auto leaves_out = [](const auto& member) {
    return member.component->leaves_out_parameters();
  };
  return {types.at(options.grad_comm), options.bucket_mb,
          std::ranges::any_of(engine.algorithms(), leaves_out), options.grad_accum.automatic};
}

/// UserError naming every algorithm with a reason against `setting`. reason: (algorithm) -> text,
/// empty for none.
void refuse_algorithms(const Engine& engine, const std::string& setting, const auto& reason) {
  std::vector<std::string> problems;
  for (const auto& [name, algorithm, events] : engine.algorithms())
    if (const auto text = reason(*algorithm); !text.empty())
      problems.push_back(setting + ": algorithms." + name + ": " + text);
  if (!problems.empty()) throw UserError(problems);
}

/// UserError naming every algorithm with which a step cannot be repeated.
void refuse_repeated_steps(const Engine& engine, bool alone) {
  refuse_algorithms(engine, "grad_accum: auto", [&](const Algorithm& algorithm) {
    const auto reason = algorithm.against_repeated_steps(alone);
    return reason.empty() ? "" : reason + "; give a number";
  });
}

template <class T>
std::set<std::string> names_of(const std::vector<Member<T>>& members) {
  std::set<std::string> names;
  for (const auto& member : members) names.insert(member.name);
  return names;
}

/// UserError if ranks do not divide images as the options demand.
void check_spatial_ranks(const TrainerOptions& options, const Ranks& ranks) {
  if (ranks.of_rows().size() == options.spatial_ranks) return;
  if (auto problem = spatial_ranks_problem(options.spatial_ranks, ranks.size()); !problem.empty())
    throw UserError(problem);
  throw UserError("TrainerParts: options.spatial_ranks is " +
                  std::to_string(options.spatial_ranks) +
                  ", and ranks are not divided so; call join(parts), or give it "
                  "ranks.divided_by_rows(options.spatial_ranks)");
}

/// Resolves the precision, equally on all ranks. `amp` is measured: a resumed run keeps its
/// precision, and an evaluation uses that of the checkpoint's training. loaded: the origin of the
/// weights at `start`.
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

/// Determines what the ranks divide, and logs it.
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

/// Divides the weights among the ranks; null if they are not divided.
std::shared_ptr<ShardedParameters> sharded_parameters(const TrainerOptions& options,
                                                      const Engine& engine, const State& state) {
  if (!divides_weights(options, state.ranks)) return nullptr;
  const auto sync = gradient_sync_of(options, engine);
  const auto gathered = options.weight_comm == "bf16" ? at::kBFloat16 : at::kFloat;
  return std::make_shared<ShardedParameters>(
      state.model, state.optimizer->owners(), state.ranks,
      ShardingOptions{gathered, sync.dtype, sync.find_unused});
}

using FurtherEvaluators = std::vector<std::unique_ptr<Evaluator>>;

/// UserError if save_best names a metric that the training run does not evaluate.
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

/// Checks evaluators, as parts made in C++ have not been checked by a recipe.
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

/// wanted: adds a console if the recipe names none.
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

/// Checks options, as parts made in C++ have not been checked by a recipe.
void check(TrainerOptions options) {
  Problems problems;
  check_fields(collect(options), "", problems);
  if (!problems.empty()) throw UserError(lines(problems));
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : options_(std::move(parts.options)),
      context_(std::move(parts.context)),
      train_loader_(std::move(parts.train_loader)),
      device_(parts.device),
      schedulers_(std::move(parts.schedulers)),
      recipe_(std::move(parts.recipe)),
      console_(parts.console && parts.ranks.first()),
      evaluator_(state_, engine_, std::string(main_evaluation), std::move(parts.eval_loader),
                 options_.eval_interval),
      step_recorder_(std::move(parts.step_recorder)),
      session_(RunFolder(options_.run_dir, options_.run_name,
                         options_.autoresume || !parts.ranks.first()),
               options_, context_, state_, engine_, logger_, clock_) {
  state_.model = std::move(parts.model);
  state_.optimizer = std::move(parts.optimizer);
  state_.run_length =
      planned_run_length(train_loader_ ? train_loader_->batches_per_epoch() : 1,
                         train_loader_ ? train_loader_->samples_per_epoch() : 1, options_);
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
  if (state_.ranks.first())
    for (auto& sink : parts.loggers) logger_.add(std::move(sink));
}

void Trainer::prepare() {
  if (std::exchange(prepared_, true)) return;
  if (const auto& environment = context_.environment; environment.size > 1 && state_.ranks.alone())
    throw UserError("rank " + std::to_string(environment.rank) + " of " +
                    std::to_string(environment.size) +
                    ": TrainerParts has no ranks: each process would train by itself; call "
                    "join(parts) before the Trainer is made");
  state_.device = device_ ? *device_ : resolve_device(options_.device, context_.environment);
  if (!state_.device.is_cpu()) at::accelerator::setDeviceIndex(state_.device.index());
  if (train_loader_) data_digest_ = train_loader_->digest();
  const auto start = session_.find_start();
  if (!start.path.empty()) loaded_ = read_provenance(start.path);
  if (start.own) recipe_ = with_start_of(recipe_, loaded_.recipe);
  state_.precision = choose_precision(options_, state_, start, loaded_);
  set_float32_rounding(state_.precision);
  set_deterministic(options_.deterministic_mode);
  step_.emplace(state_, engine_, options_.grad_clip_norm, gradient_sync_of(options_, engine_));
  if (train_loader_ && options_.grad_accum.automatic)
    refuse_repeated_steps(engine_, state_.ranks.alone());
  check_evaluators(further_evaluators_);
  if (train_loader_) check_save_best(options_, state_, further_evaluators_);
  if (train_loader_)
    for (const auto& warning : check(schedulers_, state_.run_length, options_.scale_schedule_ratio))
      log::warn(warning);

  // Surgery must not see the optimizer, which is attached after surgery.
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
    if (divided == Divided::weights)
      refuse_algorithms(engine_, "parallelism: fsdp",
                        [](const Algorithm& algorithm) { return algorithm.prevents_sharding(); });
    state_.optimizer->attach(*state_.model, state_.ranks, divided);
  }
  restore(start);
  // Initial weights may differ in their last bits between processors.
  state_.ranks.broadcast(state_.model->parameters());
  state_.ranks.broadcast(state_.model->buffers());
}

std::vector<Evaluator*> Trainer::evaluators() {
  std::vector<Evaluator*> all;
  if (evaluator_.loader() != nullptr) all.push_back(&evaluator_);
  for (const auto& evaluator : further_evaluators_) all.push_back(evaluator.get());
  return all;
}

void Trainer::open_run() {
  session_.open(recipe_);
  const auto& run_folder = session_.folder();
  add<CheckpointSaver>(own_callbacks::save_interval,
                       CheckpointSaver::Params{options_.save_interval});
  if (!state_.ranks.alone()) add<Stragglers>(own_callbacks::ranks, options_.log_interval);
  if (run_folder.kept() && state_.ranks.first()) {
    logger_.add(std::make_shared<JsonlSink>());
    logger_.add(std::make_shared<ImageFolder>());
  }
  add_console(logger_, options_.progress_bar, std::exchange(console_, false));
  const auto histograms = logger_.histogram_interval(state_.run_length);
  if (divides_weights(options_, state_.ranks) && histograms.value > 0)
    log::info("parallelism: fsdp: no histograms are logged: no rank has all weights");
  else if (histograms.value > 0)
    add<HistogramMonitor>(own_callbacks::histograms, histograms);
  loss_guard_ = std::make_shared<LossGuard>(step_->scaler().enabled() ? scale_searches : 0);
  logger_.add(loss_guard_);
  const auto folder = run_folder.kept() ? run_folder.path() : std::filesystem::path();
  auto header = run_header(state_, options_, *train_loader_, evaluator_.loader(), folder, context_);
  for (const auto& evaluator : further_evaluators_)
    header.insert(header.end() - 1, evaluation_line(*evaluator->loader(), evaluator->set()));
  if (run_folder.kept()) describe_run(header);
  std::vector<std::string> evaluated;
  for (const auto* evaluator : evaluators())
    if (evaluator->evaluated_batch() == state_.time.batch) evaluated.push_back(evaluator->set());
  logger_.open(
      {folder, run_folder.run_name(), state_.run_length, state_.time, evaluated, header, recipe_});
}

void Trainer::describe_run(const std::vector<std::string>& header) {
  if (state_.ranks.first())
    write_run_description(session_.folder().path(), header, state_.class_names,
                          engine_.algorithms(), state_.run_length);
  if (evaluator_.loader() != nullptr)
    add<EvaluationRecorder>(own_callbacks::evaluation_recorder, session_.folder().path(),
                            evaluator_.loader()->normalization());
  auto callbacks = names_of(engine_.callbacks());
  callbacks.insert(own_callbacks::run_times);
  add<RunTimes>(own_callbacks::run_times, names_of(engine_.algorithms()), std::move(callbacks));
}

Summary Trainer::fit() {
  check(options_);
  if (!train_loader_ || !state_.optimizer)
    throw UserError("TrainerParts: to fit, a train_loader and an optimizer are needed");
  check_spatial_ranks(options_, state_.ranks);
  prepare();
  return session_.run(
      {.train = [this] { train(); }, .finish = [this] { finish(); }, .flush = [this] { flush(); }});
}

void Trainer::train() {
  open_run();
  clock_.start(state_.time.seconds);
  state_.step_is_final = !engine_.acts_before_last(Event::batch_end);
  engine_.run(Event::fit_start, state_);
  state_.sharded_parameters.reset();  // those of an earlier fit()
  // Weights are divided from here on: fit_start may write to all weights.
  state_.sharded_parameters = sharded_parameters(options_, engine_, state_);
  if (session_.nothing_left())
    log::warn("nothing is left to train: the checkpoint is at epoch " +
              std::to_string(state_.time.epoch) + ", batch " + std::to_string(state_.time.batch) +
              ", max_duration is " + state_.run_length.max_duration.str());
  session_.agree();
  if (state_.time.batch > 0) {
    evaluate_if_due(false);
    if (state_.time.batch_in_epoch == 0) evaluate_if_due(true);
  }
  schedule_learning_rate();
  start_loader();
  step_->replay_by(captured_steps(options_.cuda_graph, engine_, state_, step_recorder_));
  if (state_.ranks.first() && !stopping()) session_.folder().remove_summary();
  while (!stopping()) train_epoch();
}

void Trainer::finish() {
  if (!engine_.control().stop_reason().empty())
    log::info("stopped: " + engine_.control().stop_reason());
  const bool whole = session_.signal() == 0;
  if (whole) {
    engine_.run(Event::fit_end, state_);
    logger_.commit("epoch", state_.time);
  }
  const auto changes_at_the_end = [](const auto& algorithm) {
    return algorithm.events[static_cast<size_t>(Event::fit_end)];
  };
  session_.finish_save();
  save(whole && std::ranges::any_of(engine_.algorithms(), changes_at_the_end));
}

void Trainer::flush() {
  wait_for_device();
  if (state_.sharded_parameters) state_.sharded_parameters->make_whole();
  state_.time.seconds = clock_.seconds();
  logger_.flush();
  check_loss();
}

void Trainer::start_loader() {
  SizePlan plan;
  std::string planner;
  for (const auto& algorithm : engine_.algorithms()) {
    if (auto transform = algorithm.component->sample_transform(state_))
      train_loader_->add_transform([transform = std::move(transform), name = algorithm.name](
                                       const MutableImage& image, const SampleKey& place) {
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
  // The loader counts batches by its own epochs; a run that had other epochs before has an offset.
  const int64_t ahead = state_.run_length.ahead_of_epochs;
  if (plan) expect_many_image_sizes();
  if (plan && ahead != 0) plan = [plan, ahead](int64_t batch) { return plan(batch + ahead); };
  train_loader_->start(time.epoch, time.batch_in_epoch, std::move(plan));
  feed_.emplace(*train_loader_, state_.device, state_.model->objective());
  const auto channels = std::ssize(train_loader_->normalization().mean);
  input_type_ = input_type(engine_, state_, state_.image_size, channels, Event::after_dataloader,
                           Event::before_forward);
}

bool Trainer::stopping() {
  return session_.signal() != 0 || state_.run_length.finished(state_.time) ||
         !engine_.control().stop_reason().empty();
}

void Trainer::train_epoch() {
  state_.model->train();
  if (state_.time.batch_in_epoch == 0) {
    step_->metric().reset();
    engine_.run(Event::epoch_start, state_);
  }
  const auto whole = [&] {
    return state_.time.batch_in_epoch >= state_.run_length.batches_per_epoch;
  };
  while (!whole()) {
    session_.profiler().step(state_.time.batch, state_);
    const double begin = steady_seconds(), waited_before = feed_->waited();
    const int64_t samples_before = state_.time.sample;
    train_batch(next_training_batch());
    clock_.count(state_.time.sample - samples_before, steady_seconds() - begin,
                 feed_->waited() - waited_before);

    session_.look_for_requests();
    session_.agree();
    session_.check_saves();
    evaluate_if_due(false);
    engine_.run(Event::batch_checkpoint, state_);
    session_.agree();
    if (!whole()) save_if_asked();
    if (stopping()) break;
  }
  if (whole()) end_epoch();
}

RawBatch Trainer::next_training_batch() {
  const bool first = clock_.batches() == 0;
  if (first) logger_.progress({Progress::Phase::waiting, state_.time});
  auto batch = feed_->next();
  if (!batch) batch = feed_->next();  // the end of the previous epoch
  if (!batch)
    throw RunError("the training loader gave no batch where its epochs have " +
                   std::to_string(state_.run_length.batches_per_epoch));
  if (first) logger_.progress({Progress::Phase::training, state_.time});
  return std::move(*batch);
}

void Trainer::share_clock() { state_.time.seconds = state_.ranks.broadcast(clock_.seconds()); }

void Trainer::train_batch(RawBatch batch) {
  const auto share = take_share(batch, state_.ranks);
  state_.first_sample = share.first;
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
  session_.profiler().mark_memory(state_);
  logger_.log("loss/train", loss);
  if (options_.grad_accum.automatic)
    logger_.log("grad_accum", static_cast<double>(state_.grad_accum));
  if (!state_.ranks.alone())
    logger_.log("comm/bytes", static_cast<double>(step_->sent_bytes() - sent));
  share_clock();
  state_.time.next_batch(share.samples);
  if (!stopping()) feed_->fetch_ahead();
  if (loss.is_cpu()) loss_guard_->see(state_.time, loss.item<double>());
  schedule_learning_rate();
  const bool due = state_.run_length.due(options_.log_interval, state_.time, false);
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
  session_.agree();
  evaluate_if_due(true);
  counted([&] { logger_.write(); });  // it may wait for a GPU
  engine_.run(Event::epoch_checkpoint, state_);
  session_.agree();
  save_if_asked();
}

void Trainer::schedule_learning_rate() {
  state_.optimizer->set_lr_multiplier(
      multiplier(schedulers_, state_.time, state_.run_length, options_.scale_schedule_ratio));
}

void Trainer::evaluate_if_due(bool epoch_end) {
  const auto last = [&] { return session_.signal() == 0 && stopping(); };
  const bool ended = last();
  Metrics metrics;
  if (!run_evaluations(epoch_end, ended, metrics)) return;
  // One set's evaluation may end the run; then the other sets are evaluated too.
  if (!further_evaluators_.empty() && !ended) {
    session_.agree();
    if (last()) run_evaluations(epoch_end, true, metrics);
  }
  logger_.commit("eval", state_.time);
  if (session_.evaluated(metrics)) save(/*replace=*/false, /*best=*/true);
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
  session_.agree();
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
    session_.agree();
    if (session_.signal() != 0) break;
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

}  // namespace composer
