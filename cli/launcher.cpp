#include "cli/launcher.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
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
#include "cli/rank_logs.h"
#include "nn/device/gpu_name.h"
#include "nn/distributed/job_store.h"

namespace composer {
namespace {

constexpr uint16_t usual_port = 29500;

/// Of a process whose input was refused.
constexpr int user_error_status = 2;

/// Between SIGTERM, Ctrl-C and SIGKILL, unless --grace_seconds says another time.
constexpr double usual_grace_seconds = 30;
/// A save that has not advanced for so long, as while a store puts an object's parts together, has
/// stopped.
constexpr double save_silence_seconds = 30;
/// The same where a rank has failed, after those that follow it had time to end by themselves.
constexpr double failure_grace_seconds = 3, settle_seconds = 1;
/// For launchers of other machines to come, and to see how the job ended.
constexpr double meeting_seconds = 300, leave_seconds = 10;
/// A run that is refused is over by then, and its folder gone.
constexpr double refusal_seconds = 10;
/// The launcher that hosts the store is gone when it has not answered for so long.
constexpr double silence_seconds = 30;
constexpr auto wait_between_looks = std::chrono::milliseconds(50);

/// Of a job on one machine a new one; on several, where launchers cannot tell each other, what the
/// user gave all of them, if anything.
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

std::string how_it_ended(int status) {
  if (status <= 128) return "failed with status " + std::to_string(status);
  return "was killed by signal " + std::to_string(status - 128) + " (" + ::strsignal(status - 128) +
         ")";
}

/// The ranks of this machine, from the first start to the last.
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

  /// It is gone, and the job with it, or somebody else sets values in it.
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

  /// Returns the status of what became of this start.
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

  /// For what ranks and other launchers have told.
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

  /// To be asked once the run's folder is told of. The first rank has made it then: a machine that
  /// does not see it has a disk of its own, unless it was taken away as the run is refused.
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
    if (const auto first = first_to_fail(supervisor)) {
      show_failure(*first, supervisor.status(*first));
      return supervisor.status(*first);
    }
    if (supervisor.status() == 0) return 0;
    if (asked_to_end_) {
      for (const auto& name : killed(supervisor))
        log::warn(name + " did not end when it was asked to, and was killed");
      return 128 + supervisor.asked_by();
    }
    if (!supervisor.failed().empty()) {
      show_lost(supervisor);
      return lost_ranks_status;
    }
    return ended_for_others_ ? 128 + SIGTERM : supervisor.status();
  }

  /// The first rank that failed by itself. The job's first rank has told its failure on the
  /// terminal, and is taken for another that failed in the same way.
  std::optional<size_t> first_to_fail(const Supervisor& ranks) const {
    const auto& failed = ranks.failed();
    const auto first = std::ranges::find_if(
        failed, [&](size_t number) { return ranks.status(number) != lost_ranks_status; });
    if (first == failed.end()) return {};
    const bool first_rank_too = on_terminal(0) && std::ranges::count(failed, size_t{0}) > 0 &&
                                ranks.status(0) == ranks.status(*first);
    return first_rank_too ? 0 : *first;
  }

  void show_failure(size_t number, int status) const {
    if (!on_terminal(number))
      show_last_lines(number, how_it_ended(status));
    else if (status > 128)
      log::error(name_of(number) + " " + how_it_ended(status));
  }

  /// For a start in which no rank failed by itself on this machine.
  void show_lost(const Supervisor& ranks) const {
    for (const auto& name : killed(ranks))
      log::error(name + " did not answer any more, and was killed");
    const auto& failed = ranks.failed();
    const auto first = std::ranges::find_if(
        failed, [&](size_t number) { return !logs_.last_lines(number).empty(); });
    show_last_lines(first == failed.end() ? failed.front() : *first, "lost the other ranks");
  }

  void show_last_lines(size_t number, const std::string& what) const {
    const auto file = logs_.file(number);
    const auto& lines = logs_.last_lines(number);
    std::string text = name_of(number) + " " + what;
    if (std::error_code none; !file.empty() && std::filesystem::exists(file, none))
      text += "; its output is in " + file.string();
    if (!lines.empty()) text += "; its last lines:";
    for (const auto& line : lines) text += "\n  " + line;
    log::error(text);
  }

  /// The names of the ranks that were killed.
  Words killed(const Supervisor& ranks) const {
    Words names;
    for (size_t i = 0; i < static_cast<size_t>(launch_.ranks); ++i)
      if (ranks.status(i) == 128 + SIGKILL) names.push_back(name_of(i));
    return names;
  }

  std::string name_of(size_t number) const {
    return "rank " +
           std::to_string(launch_.node_rank * launch_.ranks + static_cast<int64_t>(number));
  }

  /// After a failure that starting again may mend, here or on another machine.
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

  /// Of the first machine's launcher, which hosts the store, and whose ranks are done: until the
  /// other launchers have left, or start again. Returns 0, or 128 + the signal that asked for the
  /// end.
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

  /// Tells the other launchers. The first machine's waits for them.
  int leave(int status) {
    try {
      if (several_machines() && !lost_store_) status = say_farewell(status);
    } catch (const RunError& error) {  // nobody is left to be told
      lose_store(error);
    }
    if (lost_store_ && ended_for_others_ && is_interruption(status) && !asked_to_end_) status = 1;
    if (status == lost_ranks_status) status = 1;
    if (status == 0 || is_interruption(status)) logs_.show_waiting();
    if (is_interruption(status) && status != 128 + SIGINT && launch_.requeue_status)
      return *launch_.requeue_status;
    return status;
  }

  /// Returns the job's status: that of another launcher where only that one's ranks failed.
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
  const std::string secret_;  ///< of the job
  JobStore store_;
  RankLogs logs_;
  std::vector<std::vector<int>> processors_;  ///< of each rank; empty: any
  int64_t starts_ = 0;                        ///< after the first
  std::optional<double> told_at_;             ///< seconds of the steady clock: of the run's folder
  bool lost_store_ = false;                   ///< with the launcher that hosts it
  bool asked_to_end_ = false;                 ///< by a signal
  bool ended_for_others_ = false;             ///< what the ranks of this start were
  int64_t saved_ = 0;                         ///< as JobNews has it
  double saved_at_ = 0;                       ///< when that last changed, as told_at_
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
