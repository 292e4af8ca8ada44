#include "cli/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "cli/core_binding.h"
#include "cli/rank_logs.h"
#include "composer/clock.h"
#include "composer/distributed/job_store.h"
#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/process/supervisor.h"
#include "composer/recipe/value.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr uint16_t usual_port = 29500;

/// Between SIGTERM, Ctrl-C and SIGKILL: as long as schedulers wait.
constexpr double end_seconds = 30;
/// The same where a rank has failed, after those that follow it had time to end by themselves.
constexpr double failure_grace_seconds = 3, settle_seconds = 1;
/// For launchers of other machines to come, and to see how the job ended.
constexpr double meeting_seconds = 300, leave_seconds = 10;

/// Keys of what launchers tell each other: how often the ranks were started again, that they will
/// not be any more, and how many launchers have nothing more to ask.
constexpr const char *starts_key = "composer/starts", *over_key = "composer/over",
                     *left_key = "composer/left";

bool interrupted(int status) { return status == 128 + SIGINT || status == 128 + SIGTERM; }

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
        store_(open_store(launch)),
        logs_(launch.node_rank * launch.ranks, launch.ranks) {
    launch_.master_port = store_.port();
    if (launch.bind != Bind::none) processors_ = processors_of_ranks(launch.bind, launch.ranks);
  }

  int run() {
    for (;;) {
      const int status = run_once();
      if (!goes_on_after(status)) return leave(status);
      ++starts_;
      log::warn("the ranks start again from the newest whole checkpoint (" +
                std::to_string(starts_) + " of at most " + std::to_string(launch_.max_restarts) +
                " times)");
      logs_.start_again();
    }
  }

 private:
  static JobStore open_store(const Launch& launch) {
    const uint16_t port = launch.master_port.value_or(launch.machines() > 1 ? usual_port : 0);
    if (launch.node_rank == 0) return JobStore::host(port, meeting_seconds);
    return JobStore::connect(launch.master_addr, port, meeting_seconds);
  }

  bool several_machines() const { return launch_.machines() > 1; }
  std::string name_of(size_t number) const {
    return "rank " +
           std::to_string(launch_.node_rank * launch_.ranks + static_cast<int64_t>(number));
  }
  bool on_terminal(size_t number) const { return launch_.node_rank == 0 && number == 0; }

  /// Returns the status of what became of this start.
  int run_once() {
    SupervisorOptions options;
    options.grace_seconds = failure_grace_seconds;
    options.first_grace_seconds = end_seconds;
    options.settle_seconds = settle_seconds;
    options.fails = [](int status) { return status != 0 && !interrupted(status); };
    options.take_line = [&](size_t number, Stream, std::string_view line) {
      logs_.take(number, line);
    };
    Supervisor* ranks = nullptr;
    options.look = [&] { look(*ranks); };
    Supervisor supervisor(options);
    ranks = &supervisor;
    for (int64_t i = 0; i < launch_.ranks; ++i) {
      const auto number = static_cast<size_t>(i);
      std::optional<BoundThread> bound;
      if (!processors_.empty()) bound.emplace(processors_[number]);
      supervisor.start(command_of(i), !on_terminal(number));
    }
    supervisor.wait();
    asked_to_end_ = supervisor.asked_by() != 0;
    return outcome_of(supervisor);
  }

  Command command_of(int64_t local_rank) const {
    Command command = program_;
    for (auto& [name, value] : rank_environment(launch_, local_rank))
      command.environment[name] = value;
    command.environment["COMPOSER_LAUNCHER"] = "1";
    if (launch_.bind == Bind::cores) command.environment["COMPOSER_BIND"] = "cores";
    command.environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    command.environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(starts_);
    return command;
  }

  /// For what ranks and other launchers have told.
  void look(Supervisor& supervisor) {
    try {
      if (!logs_.opened())
        if (const auto folder = told_run_folder(store_)) logs_.open(*folder);
      if (several_machines() && (store_.get(over_key) || starts_told() > starts_)) supervisor.end();
    } catch (const RunError&) {  // the first machine's launcher is gone, and with it the job
      over_ = true;
      supervisor.end();
    }
  }

  int64_t starts_told() { return std::stoll(store_.get(starts_key).value_or("0")); }

  int outcome_of(const Supervisor& supervisor) {
    const auto& failed = supervisor.failed();
    const auto first = first_to_fail(supervisor);
    if (first) {
      show_failure(*first, supervisor.status(*first));
      return supervisor.status(*first);
    }
    if (!failed.empty()) {
      show_lost(supervisor);
      return lost_peers_status;
    }
    return supervisor.status();
  }

  /// Of those that failed by themselves. Where the first rank says the same, it has said it on the
  /// terminal.
  std::optional<size_t> first_to_fail(const Supervisor& supervisor) const {
    const auto by_itself = [&](size_t number) {
      return supervisor.status(number) != lost_peers_status;
    };
    const auto& failed = supervisor.failed();
    const auto first = std::ranges::find_if(failed, by_itself);
    if (first == failed.end()) return {};
    const bool first_rank_too = on_terminal(0) && std::ranges::count(failed, size_t{0}) > 0 &&
                                supervisor.status(0) == supervisor.status(*first);
    return first_rank_too ? 0 : *first;
  }

  void show_failure(size_t number, int status) {
    if (!on_terminal(number))
      show_last_lines(number, how_it_ended(status));
    else if (status > 128)
      log::error(name_of(number) + " " + how_it_ended(status));
  }

  /// Of ranks of which none failed by itself on this machine.
  void show_lost(const Supervisor& supervisor) {
    const size_t first = supervisor.failed().front();
    for (size_t i = 0; i < static_cast<size_t>(launch_.ranks); ++i)
      if (supervisor.status(i) == 128 + SIGKILL)
        log::error(name_of(i) + " did not answer any more, and was killed");
    show_last_lines(first, "lost the other ranks");
  }

  void show_last_lines(size_t number, const std::string& what) {
    const auto file = logs_.file(number);
    const auto& lines = logs_.last_lines(number);
    std::string text = name_of(number) + " " + what;
    if (!file.empty()) text += "; its output is in " + file.string();
    if (!lines.empty()) text += "; its last lines:";
    for (const auto& line : lines) text += "\n  " + line;
    log::error(text);
  }

  /// After a failure that starting again may mend, here or on another machine.
  bool goes_on_after(int status) {
    const bool user_error = status == 2, done = status == 0 || interrupted(status);
    try {
      const bool told = several_machines() && starts_told() > starts_;
      if (asked_to_end_ || over_ || (several_machines() && store_.get(over_key))) return false;
      if (user_error || (done && !told) || starts_ >= launch_.max_restarts) return false;
      if (several_machines() && !told) store_.set(starts_key, std::to_string(starts_ + 1));
      return true;
    } catch (const RunError&) {
      return false;
    }
  }

  /// Tells the other launchers. The first machine's, which hosts the store, waits for them.
  int leave(int status) {
    try {
      if (several_machines() && !over_) {
        if (status != 0) store_.set(over_key, "1");
        int64_t left = store_.add(left_key, 1);
        const double until = steady_seconds() + leave_seconds;
        while (launch_.node_rank == 0 && left < launch_.machines() && steady_seconds() < until) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          left = store_.add(left_key, 0);
        }
      }
    } catch (const RunError&) {  // nobody is left to be told
    }
    if (status == 128 + SIGTERM && launch_.requeue_status) return *launch_.requeue_status;
    return status == lost_peers_status ? 1 : status;
  }

  Launch launch_;
  const Command& program_;
  JobStore store_;
  RankLogs logs_;
  std::vector<cpu_set_t> processors_;  ///< of each rank; empty: any
  int64_t starts_ = 0;                 ///< after the first
  bool over_ = false, asked_to_end_ = false;
};

fs::path find_program(const std::string& name) {
  const auto here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const auto& path : {fs::path(name), here / name, here / fs::path(name).filename()})
    if (fs::is_regular_file(path) && access(path.c_str(), X_OK) == 0) return fs::absolute(path);
  std::string problem =
      "composer: '" + name + "' is no subcommand, nor a program here or beside composer";
  throw UserError(problem + suggestion(name, command_names()));
}

void check_ranks_option(const Words& words) {
  if (std::ranges::count(words, "-n") + std::ranges::count(words, "--nproc") > 0)
    throw UserError("-n: goes before the program: composer -n 8 " + words[0] + " ...");
}

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

bool only_looks(const Words& words) {
  return std::ranges::any_of(words, [](const auto& word) {
    return word == "--plan" || word == "--dump" || word == "--help" || word == "-h";
  });
}

void take_first_place(const Launch& launch) {
  for (const auto& [name, value] : rank_environment(launch, 0))
    setenv(name.c_str(), value.c_str(), 1);
}

int start_program(const Launch& launch, const Words& words) {
  const auto program = find_program(words[0]);
  check_ranks_option(words);
  if (launch.supervised() && !only_looks(words))
    return run_ranks(launch, {program, {words.begin() + 1, words.end()}, {}, {}});
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  take_first_place(launch);
  execv(program.c_str(), arguments.data());
  throw UserError(cannot_be_started(program, errno));
}

}  // namespace composer
