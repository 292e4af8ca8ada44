#include "cli/launcher.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "base/process/signals.h"
#include "base/process/supervisor.h"
#include "cli/core_binding.h"
#include "cli/job_watch.h"
#include "cli/rank_failures.h"
#include "cli/rank_logs.h"
#include "nn/device/gpu_name.h"
#include "nn/distributed/job_store.h"

namespace composer {
namespace {

constexpr uint16_t usual_port = 29500;

/// Exit status of a rank that refused its input.
constexpr int user_error_status = 2;

/// Seconds between SIGTERM or Ctrl-C and SIGKILL, unless --grace_seconds is given.
constexpr double usual_grace_seconds = 30;
/// A save without progress for this many seconds counts as stopped. A store may take long to
/// assemble the parts of an object.
constexpr double save_silence_seconds = 30;
/// After the failure of a rank the others have settle_seconds to end by themselves, then
/// failure_grace_seconds between SIGTERM and SIGKILL.
constexpr double failure_grace_seconds = 3, settle_seconds = 1;
/// Seconds to wait for the launchers of other machines: at the start, and before the store ends.
constexpr double meeting_seconds = 300, leave_seconds = 10;
/// A run that refuses its input has ended and removed its folder within this many seconds.
constexpr double refusal_seconds = 10;
/// The launcher that hosts the store counts as gone after this many seconds without an answer.
constexpr double silence_seconds = 30;
constexpr auto wait_between_looks = std::chrono::milliseconds(50);

/// The secret of the job: random on one machine; on several, where launchers cannot share one, the
/// user's, which may be empty.
std::string secret_of(const Launch& launch) {
  if (launch.machines() > 1) {
    const char* const given = std::getenv(job_secret_variable);
    return given == nullptr ? "" : given;
  }
  std::random_device source;
  std::string secret;
  for (int i = 0; i < 4; ++i) secret += std::to_string(source()) + '-';
  return secret;
}

/// The ranks of this machine over all starts.
class Job {
 public:
  Job(const Launch& launch, const Command& program)
      : launch_(launch),
        program_(program),
        secret_(secret_of(launch)),
        store_(open_store(launch, secret_)),
        logs_(launch.node_rank * launch.ranks, launch.ranks) {
    launch_.master_port = store_.port();
    if (!several_machines()) launch_.master_addr = MeetingPoint().address;
    if (launch.bind != Bind::none)
      processors_ = processors_of_ranks(
          launch.bind, launch.ranks,
          launch.bind == Bind::numa ? gpu_addresses() : std::vector<std::string>());
  }

  int run() {
    for (;;) {
      int status = run_once();
      if (status == 0 && several_machines() && launch_.node_rank == 0) status = wait_for_others();
      if (!goes_on_after(status)) return leave(status);
      ++starts_;
      log::warn("the ranks start again from the newest whole checkpoint (" +
                std::to_string(starts_) + " of at most " + std::to_string(launch_.max_restarts) +
                " times)");
      logs_.start_again();
    }
  }

 private:
  static JobStore open_store(const Launch& launch, const std::string& secret) {
    const bool one_machine = launch.machines() == 1;
    const MeetingPoint point{launch.master_addr,
                             launch.master_port.value_or(one_machine ? uint16_t{0} : usual_port),
                             secret, one_machine};
    return launch.node_rank == 0 ? JobStore::host(point, meeting_seconds)
                                 : JobStore::connect(point, meeting_seconds);
  }

  /// Handles an error of the store: it is gone, and the job with it, or holds a foreign value.
  void lose_store(const std::exception& error) {
    lost_store_ = true;
    if (dynamic_cast<const ForeignValue*>(&error) != nullptr) log::error(error.what());
  }

  double grace_seconds() const {
    return launch_.grace_seconds ? static_cast<double>(*launch_.grace_seconds)
                                 : usual_grace_seconds;
  }
  bool several_machines() const { return launch_.machines() > 1; }
  bool on_terminal(size_t number) const { return launch_.node_rank == 0 && number == 0; }

  /// Runs all ranks once. Returns the exit status.
  int run_once() {
    SupervisorOptions options;
    options.grace_seconds = failure_grace_seconds;
    options.first_grace_seconds = grace_seconds();
    options.settle_seconds = settle_seconds;
    options.fails = [](int status) { return status != 0 && !is_interruption(status); };
    options.take_line = [&](size_t number, Stream, std::string_view line) {
      logs_.take(number, line);
    };
    Supervisor* ranks = nullptr;
    std::optional<JobWatch> watch;
    options.look = [&] {
      if (watch) look(*ranks, *watch);
    };
    options.spared_until = [&](double since) {
      const bool saves = saved_at_ > since && !(on_terminal(0) && ranks->status(0) >= 0);
      return saves ? saved_at_ + save_silence_seconds : 0;
    };
    Supervisor supervisor(options);
    ranks = &supervisor;
    for (int64_t i = 0; i < launch_.ranks; ++i) {
      const auto number = static_cast<size_t>(i);
      std::optional<BoundThread> bound;
      if (!processors_.empty()) bound.emplace(processors_[number]);
      supervisor.start(command_of(i), !on_terminal(number));
    }
    ended_for_others_ = false;
    watch.emplace(store_, ask_for_news, silence_seconds);
    supervisor.wait();
    watch.reset();
    try {
      learn_run_folder(supervisor);
    } catch (const RunError& error) {
      lose_store(error);
    }
    asked_to_end_ = supervisor.asked_by() != 0;
    return outcome_of(supervisor);
  }

  Command command_of(int64_t local_rank) const {
    Command command = program_;
    for (auto& [name, value] : rank_environment(launch_, local_rank))
      command.environment[name] = value;
    command.environment["COMPOSER_LAUNCHER"] = "1";
    command.environment[job_secret_variable] = secret_;
    if (launch_.bind == Bind::cores) command.environment["COMPOSER_BIND"] = "cores";
    command.environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    command.environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(starts_);
    return command;
  }

  /// Acts on messages of ranks and other launchers.
  void look(Supervisor& supervisor, JobWatch& watch) {
    if (lost_store_) return;
    try {
      const auto news = watch.news();
      if (news.saved > saved_) saved_ = news.saved, saved_at_ = steady_seconds();
      if (news.run_folder) logs_.open(*news.run_folder, has_own_disk());
      if (news.status)
        end_for_others(supervisor,
                       is_interruption(*news.status) ? grace_seconds() : failure_grace_seconds);
      else if (news.starts > starts_)
        end_for_others(supervisor, failure_grace_seconds);
    } catch (const std::exception& error) {
      lose_store(error);
      end_for_others(supervisor, failure_grace_seconds);
    }
  }

  void end_for_others(Supervisor& supervisor, double grace_seconds) {
    ended_for_others_ = true;
    supervisor.end(grace_seconds);
  }

  /// Whether this machine does not share the run folder's disk. Call it once the folder is known:
  /// the first rank has created it then. A missing folder may also be that of a refused run, which
  /// is removed within refusal_seconds.
  bool has_own_disk() {
    if (launch_.node_rank == 0) return false;
    if (!told_at_) told_at_ = steady_seconds();
    return steady_seconds() - *told_at_ > refusal_seconds;
  }

  void learn_run_folder(const Supervisor& ended) {
    if (logs_.opened() || lost_store_) return;
    bool refused = false;
    for (size_t i = 0; i < static_cast<size_t>(launch_.ranks); ++i)
      refused = refused || ended.status(i) == user_error_status;
    if (const auto folder = told_run_folder(store_))
      logs_.open(*folder, launch_.node_rank > 0 && !refused);
  }

  int outcome_of(const Supervisor& supervisor) const {
    const RankFailures failures(supervisor, logs_, launch_.node_rank * launch_.ranks,
                                launch_.ranks);
    if (const auto first = failures.first()) {
      failures.show(*first);
      return supervisor.status(*first);
    }
    if (supervisor.status() == 0) return 0;
    if (asked_to_end_) {
      for (const auto& name : failures.killed())
        log::warn(name + " did not end when it was asked to, and was killed");
      return 128 + supervisor.asked_by();
    }
    if (!supervisor.failed().empty()) {
      failures.show_lost();
      return lost_ranks_status;
    }
    return ended_for_others_ ? 128 + SIGTERM : supervisor.status();
  }

  /// Whether to restart the ranks: after a failure, here or on another machine, that a restart may
  /// repair.
  bool goes_on_after(int status) {
    const bool user_error = status == user_error_status,
               done = status == 0 || is_interruption(status);
    if (asked_to_end_ || lost_store_) return false;
    try {
      const bool told = several_machines() && told_starts(store_) > starts_;
      if (several_machines() && (told_status(store_) || told_left(store_, launch_.machines()) > 0))
        return false;
      if (user_error || (done && !told) || starts_ >= launch_.max_restarts) return false;
      if (several_machines() && !told) tell_starts(store_, starts_ + 1);
      return true;
    } catch (const RunError& error) {
      lose_store(error);
      return false;
    }
  }

  /// Called by the first machine's launcher, which hosts the store, when its ranks are done. Waits
  /// until the other launchers have left or restart. Returns 0, or 128 + the signal that asked for
  /// the end.
  int wait_for_others() {
    const Signals signals(ending_signals());
    try {
      while (told_left(store_, launch_.machines()) < launch_.machines() - 1 &&
             told_starts(store_) <= starts_) {
        if (const auto taken = signals.take(); !taken.empty()) {
          asked_to_end_ = true;
          return 128 + taken.front();
        }
        std::this_thread::sleep_for(wait_between_looks);
      }
    } catch (const RunError& error) {
      lose_store(error);
    }
    return 0;
  }

  /// Ends the job with `status`, after telling the other launchers. Returns the exit status.
  int leave(int status) {
    try {
      if (several_machines() && !lost_store_) status = say_farewell(status);
    } catch (const RunError& error) {  // no launcher is left
      lose_store(error);
    }
    if (lost_store_ && ended_for_others_ && is_interruption(status) && !asked_to_end_) status = 1;
    if (status == lost_ranks_status) status = 1;
    if (status == 0 || is_interruption(status)) logs_.show_waiting();
    if (is_interruption(status) && status != 128 + SIGINT && launch_.requeue_status)
      return *launch_.requeue_status;
    return status;
  }

  /// Tells the other launchers the status; the first machine's launcher waits for them. Returns the
  /// status of the job, which may be that of another launcher's ranks.
  int say_farewell(int status) {
    const auto told = told_status(store_);
    const bool for_others =
        status == lost_ranks_status || (ended_for_others_ && is_interruption(status));
    if (for_others && !asked_to_end_) status = told.value_or(1);
    if (status != 0 && !told) tell_status(store_, status);
    if (launch_.node_rank != 0) {
      tell_left(store_);
      return status;
    }
    const double until =
        steady_seconds() + leave_seconds + (is_interruption(status) ? grace_seconds() : 0);
    while (told_left(store_, launch_.machines()) < launch_.machines() - 1 &&
           steady_seconds() < until)
      std::this_thread::sleep_for(wait_between_looks);
    return status;
  }

  Launch launch_;
  const Command& program_;
  const std::string secret_;  ///< secret of the job
  JobStore store_;
  RankLogs logs_;
  std::vector<std::vector<int>> processors_;  ///< processors of each rank; empty: unbound
  int64_t starts_ = 0;                        ///< restarts so far
  std::optional<double> told_at_;  ///< steady-clock time when the run folder became known
  bool lost_store_ = false;        ///< true once the store is gone
  bool asked_to_end_ = false;      ///< true after a signal that asks for the end
  bool ended_for_others_ = false;  ///< true if this start was ended because of other ranks
  int64_t saved_ = 0;              ///< the last JobNews::saved
  double saved_at_ = 0;            ///< steady-clock time of the last change of saved_
};

}  // namespace

std::map<std::string, std::string> rank_environment(const Launch& launch, int64_t local_rank) {
  const int64_t rank = launch.node_rank * launch.ranks + local_rank;
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(local_rank)},
          {"WORLD_SIZE", std::to_string(launch.world_size)},
          {"LOCAL_WORLD_SIZE", std::to_string(launch.ranks)},
          {"NODE_RANK", std::to_string(launch.node_rank)},
          {"MASTER_ADDR", launch.master_addr},
          {"MASTER_PORT", std::to_string(launch.master_port.value_or(usual_port))}};
}

int run_ranks(const Launch& launch, const Command& program) { return Job(launch, program).run(); }

}  // namespace composer
