#include "composer/run/run_session.h"

#include <cstring>
#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "nn/device/device.h"
#include "nn/device/exception_text.h"
#include "nn/distributed/job_store.h"

namespace composer {
namespace {

/// How long a run that has failed waits for its uploads, unless a signal comes.
constexpr double longest_drain_seconds = 60;

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

/// Does a step of a failed run's end; an exception becomes a warning.
void note(const auto& step) {
  try {
    step();
  } catch (const std::exception& second) {
    log::warn(std::string("the failure below could not be noted in the run folder: ") +
              second.what());
  }
}

/// Lets the corrected command use the folder's name.
void remove_folder(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::remove_all(folder, problem);
  if (problem) log::warn(folder.string() + ": cannot be removed: " + problem.message());
}

/// The answer to a request for a checkpoint that has been written.
Answer saved_as(const std::string& name, const TrainerOptions& options) {
  const auto kept = options.save_num_checkpoints_to_keep;
  return {true,
          "saved as checkpoint " + name +
              (kept < 0 ? ""
                        : "; only the newest " + std::to_string(kept) +
                              (options.save_best.empty() ? "" : " and the best") + " are kept")};
}

}  // namespace

RunSession::RunSession(RunFolder folder, const TrainerOptions& options, const RunContext& context,
                       State& state, Engine& engine, Logger& logger, const RunClock& clock)
    : folder_(std::move(folder)),
      options_(options),
      context_(context),
      state_(state),
      engine_(engine),
      logger_(logger),
      clock_(clock),
      summary_sink_(std::make_shared<SummarySink>()) {
  logger_.add(summary_sink_);
}

StartingPoint RunSession::find_start() {
  const bool trains = state_.optimizer != nullptr;
  if (options_.autoresume && trains && state_.ranks.first()) lock_ = folder_.claim();
  return find_starting_point(options_, trains, folder_, state_.ranks);
}

bool RunSession::nothing_left() const {
  return state_.time.batch > 0 && state_.run_length.finished(state_.time);
}

Summary RunSession::run(const Loop& loop) {
  const bool first = state_.ranks.first();
  if (!lock_ && first) lock_ = folder_.claim();
  if (first && folder_.kept()) tell_run_folder(context_.environment, folder_.path());
  const SaveReports reports(context_.environment);
  const auto lock = std::move(lock_);
  if (first) earlier_ = folder_.read_summary();
  evaluated_ = false;
  requests_ = RunRequests(lock.get());
  const InterruptGuard guard;
  try {
    loop.train();
    profiler_->finish();
    loop.finish();
    finish_save();
    finish_uploads();
    requests_.look(engine_.control(), /*now=*/true);
    requests_.answer_all(saved());
    loop.flush();
    profiler_.reset();
    writer_.reset();
    uploads_.reset();
    const auto end =
        signal_ == 0 ? RunEnd{"completed", ""} : RunEnd{"interrupted", signal_text(signal_)};
    auto summary = summarize(end);
    if (summary.message != end.message && first) log::warn(summary.message);
    if (first && summary_is_due()) folder_.write_summary(summary);
    tell_of_end(end);
    return summary;
  } catch (...) {
    fail(lock.get());
    throw;
  }
}

void RunSession::fail(const Mailbox* lock) {
  const RunEnd end{"failed", text_of(std::current_exception())};
  state_.ranks.abort();
  profiler_.reset();
  note([&] { logger_.flush(); });
  note([&] {
    if (writer_) writer_->give_up();
  });
  if (lock != nullptr) lock->free_room();
  if (state_.ranks.first()) note([&] { folder_.write_summary(summarize(end)); });
  tell_of_end(end);
  note([&] { give_up_uploads(end, !handles<LostRankError>()); });
  if (lock != nullptr && lock->made_folder() && clock_.batches() == 0 && handles<UserError>())
    remove_folder(folder_.path());
}

void RunSession::tell_of_end(const RunEnd& end) noexcept {
  for (const auto& [name, callback, events] : engine_.callbacks()) try {
      callback->run_end(state_, end);
    } catch (...) {
      log::warn("callbacks." + name + ": at the run's end: " + text_of(std::current_exception()));
    }
  logger_.close(end);
}

Summary RunSession::summarize(const RunEnd& end) const {
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

bool RunSession::summary_is_due() const {
  return clock_.batches() > 0 || evaluated_ || !earlier_ || earlier_->status != "completed";
}

void RunSession::open(const std::string& recipe) {
  check_store();
  open_profiler();
  // A run that has ended already keeps the recipe that it was trained with.
  const bool stays = nothing_left() && std::filesystem::exists(folder_.path() / "hparams.yaml");
  if (state_.ranks.first()) folder_.write_recipe(stays ? "" : recipe);
  if (!folder_.kept()) return;
  writer_.emplace(
      folder_.checkpoints(), state_.ranks,
      CheckpointWriter::Options{options_.save_async, options_.save_num_checkpoints_to_keep});
  if (state_.ranks.first() && !options_.save_remote.empty()) open_uploads();
}

void RunSession::check_store() const {
  const bool goes_on = saved_batch_ >= 0;
  if (options_.save_remote.empty() || !folder_.kept() || goes_on) return;
  std::string problem;
  if (state_.ranks.first()) try {
      CheckpointStore store(options_.save_remote, folder_.run_name(), options_.remote);
      if (!store.names().empty())
        problem = "run_name: " + store.text() + " has checkpoints already" +
                  (options_.autoresume
                       ? ", none of which can be used; give another --run_name"
                       : "; give --autoresume true to go on with the run, or another --run_name");
    } catch (const std::exception& error) {
      log::warn("save_remote: whether there are checkpoints of this run_name is not known: " +
                std::string(error.what()));
    }
  problem = state_.ranks.broadcast(problem);
  if (!problem.empty()) throw UserError(problem);
}

void RunSession::open_profiler() {
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

/// Uploads the checkpoint that the run was resumed from too: a kill may have come before its
/// upload.
void RunSession::open_uploads() {
  uploads_ = std::make_unique<CheckpointUploads>(
      CheckpointStore(options_.save_remote, folder_.run_name(), options_.remote,
                      /*outlasts_signal=*/true),
      folder_.checkpoints(), options_.save_num_checkpoints_to_keep);
  if (saved_batch_ != state_.time.batch || state_.time.batch == 0) return;
  const auto name = checkpoint_name(state_.time);
  std::error_code none;
  const auto best = std::filesystem::read_symlink(folder_.checkpoints() / "best", none);
  uploads_->add(name, best == name, /*unless_there=*/true);
}

void RunSession::agree() {
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

bool RunSession::evaluated(const std::vector<std::pair<std::string, double>>& metrics) {
  evaluated_ = evaluated_ || !metrics.empty();
  const auto found =
      std::ranges::find(metrics, options_.save_best, &std::pair<std::string, double>::first);
  if (found == metrics.end()) return false;
  // The checkpoint under way may fail, and then was not the best one.
  if (auto lower = best_before_;
      writer_ && writer_->busy() && lower.take(found->first, found->second))
    finish_save();
  const auto before = best_;
  if (!best_.take(options_.save_best, found->second)) return false;
  best_before_ = before;
  if (saved_batch_ != state_.time.batch) return true;
  if (!state_.ranks.first()) return false;
  const auto name = checkpoint_name(state_.time);
  mark_best_checkpoint(folder_.checkpoints(), name);
  if (uploads_) uploads_->mark_best(name);
  return false;
}

bool RunSession::saves(bool replace) const {
  return (saved_batch_ != state_.time.batch || replace) && folder_.kept();
}

void RunSession::save(const Checkpoint& checkpoint, CheckpointWriter::Plan plan) {
  writer_->start(checkpoint, plan);
  saved_batch_ = state_.time.batch;
  if (!options_.save_async) finish_save();
}

void RunSession::check_saves() {
  if (writer_) conclude(writer_->poll());
  check_uploads();
}

void RunSession::finish_save() {
  if (writer_) conclude(writer_->wait());
}

void RunSession::conclude(const std::optional<SaveOutcome>& outcome) {
  if (!outcome) return;
  const auto& problem = outcome->problem;
  requests_.answer("checkpoint",
                   problem.empty()
                       ? saved_as(outcome->name, options_)
                       : Answer{false, "there is no checkpoint " + outcome->name + ": " + problem});
  if (problem.empty()) {
    if (uploads_) uploads_->add(outcome->name, outcome->best);
    return;
  }
  saved_batch_ = -1;
  save_problem_ = problem;
  if (outcome->best) best_ = best_before_;
  const bool own = outcome->rank == state_.ranks.rank();
  const auto text = own ? problem : "rank " + std::to_string(outcome->rank) + ": " + problem;
  if (outcome->not_finite ? options_.on_nan == "stop" : options_.on_save_error == "error") {
    if (own) throw RunError(text);
    throw LostRankError(text);
  }
  if (state_.ranks.first()) log::warn(text);
}

Answer RunSession::saved() const {
  const auto name = checkpoint_name(state_.time);
  if (saved_batch_ == state_.time.batch) return saved_as(name, options_);
  return {false, "there is no checkpoint " + name + ": " + save_problem_};
}

void RunSession::answer_checkpoint_requests() {
  requests_.serve("checkpoint");
  if (!writer_ || !writer_->busy()) requests_.answer("checkpoint", saved());
}

void RunSession::check_uploads() {
  const auto problem = uploads_ ? uploads_->problem() : std::nullopt;
  if (!problem) return;
  // After a signal the run is interrupted, not failed, and will be started again.
  const bool interrupted = signal_ != 0 || received_signal() != 0;
  if (options_.on_save_error == "error" && !interrupted) throw RunError(*problem);
  log::warn(*problem);
}

void RunSession::finish_uploads() {
  bool told = false;
  // However long the uploads take, the other ranks are answered within their time limit.
  while (!state_.ranks.all(!uploads_ || uploads_->finish(std::chrono::seconds(told ? 1 : 0)))) {
    if (uploads_ && !told) log::info("waiting until checkpoints are in " + options_.save_remote);
    told = true;
  }
  check_uploads();
}

/// Waits for uploads for a while, and warns of what save_remote does not have then. tells: whether
/// to log why the run has failed before the wait.
void RunSession::give_up_uploads(const RunEnd& end, bool tells) {
  if (!uploads_) return;
  using std::chrono::milliseconds;
  if (!uploads_->finish(milliseconds(0))) {
    // Other ranks wait for this one, and must not time out before it ends.
    const double most = state_.ranks.alone()
                            ? longest_drain_seconds
                            : std::min(longest_drain_seconds, options_.dist_timeout / 2);
    if (tells) log::error(end.message);
    log::info("waiting for " + std::to_string(std::lround(most)) +
              " s at most until checkpoints are in " + options_.save_remote);
    const int signal = received_signal();
    const double late = steady_seconds() + most;
    while (!uploads_->finish(milliseconds(100)) && steady_seconds() < late &&
           received_signal() == signal) {
    }
    uploads_->give_up();
  }
  if (const auto problem = uploads_->problem()) log::warn(*problem);
  uploads_.reset();
}

}  // namespace composer
