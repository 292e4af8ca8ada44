#include "cli/main.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/all.h"
#include "base/error.h"
#include "base/log.h"
#include "base/params/value.h"
#include "base/process/interrupt.h"
#include "base/process/signals.h"
#include "base/rank_environment.h"
#include "base/terminal.h"
#include "base/version.h"
#include "cli/arguments.h"
#include "cli/launch_options.h"
#include "cli/launcher.h"
#include "cli/run_report.h"
#include "composer/recipe/registry.h"
#include "composer/run/builtin.h"
#include "composer/run/rank_threads.h"
#include "data/datasets/all.h"
#include "models/all.h"
#include "nn/device/cpu_allocator.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// The program at `path`: as given, relative to the folder of this program, or by its file name in
/// that folder. Empty if there is none.
fs::path program_at(const fs::path& path) {
  const auto here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const auto& one : {path, here / path, here / path.filename()})
    if (fs::is_regular_file(one) && access(one.c_str(), X_OK) == 0) return fs::absolute(one);
  return {};
}

/// UserError if there is none, and for a name without a slash, which counts as a mistyped
/// subcommand.
fs::path find_program(const std::string& name) {
  const auto program = program_at(name);
  const bool is_path = name.find('/') != name.npos;
  if (is_path && !program.empty()) return program;
  const auto problem = "composer: '" + name + "' is no ";
  if (is_path) throw UserError(problem + "program, neither here nor beside composer");
  if (!program.empty())
    throw UserError(problem + "subcommand; the program of that name is started as ./" + name);
  auto known = names_in(command_table());
  known.insert(known.begin(), {"--help", "--version"});
  throw UserError(problem + "subcommand" + suggestion(name, known));
}

/// Whether the words of train or eval only ask for information: --plan, --dump, --help.
bool only_looks(const Words& words) {
  return std::ranges::any_of(words, [](const auto& word) {
    return word == "--plan" || word == "--dump" || word == "--help" || word == "-h";
  });
}

/// Sets the environment variables of the launch's first rank for this process.
void take_first_place(const Launch& launch) {
  for (const auto& [name, value] : rank_environment(launch, 0))
    setenv(name.c_str(), value.c_str(), 1);
}

/// Runs the program words[0] as ranks, or in place of this process if it is a single rank.
/// UserError as find_program().
int start_program(const Launch& launch, const Words& words) {
  const auto program = find_program(words[0]);
  const bool asks_for_help = std::ranges::count(words, "--help") > 0;
  if (launch.supervised() && !asks_for_help)
    return run_ranks(launch, {program, {words.begin() + 1, words.end()}, {}, {}});
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  take_first_place(launch);
  execv(program.c_str(), arguments.data());
  throw UserError(cannot_be_started(program, errno));
}

/// While this object lives, one of ending_signals() ends the process with the line "COMMAND:
/// interrupted; nothing is reported" and the exit status 128 + signal. Work that takes over signals
/// (base/process/interrupt.h) comes first, and throws Interrupted. Only one may live at a time.
class EndsOnSignal {
 public:
  explicit EndsOnSignal(const std::string& command)
      : handlers_(ending_signals(), handler_of(command)) {}

  /// Writes the line. A handler of signals may call this.
  static void tell() {
    if (::write(STDERR_FILENO, line_, std::strlen(line_)) < 0) return;  // nobody reads it
  }

 private:
  static void end(int signal) {
    tell();
    _exit(128 + signal);
  }
  /// Sets the line, which must be there before the handler is.
  static auto handler_of(const std::string& command) -> void (*)(int) {
    std::snprintf(line_, sizeof line_, "%s: interrupted; nothing is reported\n", command.c_str());
    return end;
  }

  static inline char line_[128];
  SignalHandlers handlers_;
};

constexpr const char* help =
    R"(composer trains convolutional networks by recipes of composable speed-up methods.

  composer train                              the quickstart: trains a small network on a drawn image set
  composer train -f RECIPE [--key VALUE ...]  trains; any key of the recipe can be overridden
  composer train -f RECIPE --plan | --dump    what would run | the resolved recipe as YAML
  composer eval --load_path P [-f RECIPE]     evaluates weights, by the recipe inside the checkpoint or another
  composer predict --load_path P --source FILE|FOLDER|F.beton|LIST.csv [-f RECIPE] [--top_k 5] [--logits]
  composer predict --model EXPORT --source FILE|FOLDER|F.beton|LIST.csv [--precision fp32|bf16] [--batch_size 32]
                                              without the trainer, and faster
  composer list [algorithms|models|datasets|optimizers|schedulers|callbacks|loggers|recipes]
  composer describe algorithm NAME            (or model, dataset, ...) its hyperparameters
  composer schema                             a JSON Schema of recipes, for editors: composer schema > recipe.schema.json
  composer completion bash|zsh|fish           a script that completes command lines: source <(composer completion bash)
  composer --cmake-dir                        where find_package(composer) finds this installation
  composer reference --output FOLDER          pages on every component, key and subcommand
  composer bench headspace -f RECIPE          what limits the training: the step, decoding, the storage
  composer bench loader|image|augment|step|overhead|infer ...
                                              measures
  composer check -f RECIPE --against fp32|unfused|cpu [--steps N] [--json]
                                              its training steps held against another backend's, tensor by tensor
  composer checkpoint info|verify PATH        what a checkpoint holds, and whether it is whole
  composer checkpoint consolidate|convert PATH [--to pth|safetensors|dcp] --output P
                                              its weights as one file, for torch.load, or as PyTorch's shards
  composer export CHECKPOINT --format safetensors|torchscript|onnx --output PATH [--weights model|ema|swa]
                                              its network for use elsewhere
  composer quantize CHECKPOINT --calibration DATA --output DIR [--evaluate DATA] [--max_drop 0.002] [--keep LAYER ...]
                                              its network in 8 bits, and what that costs
  composer request RUN_FOLDER checkpoint|stop [--wait SECONDS]
                                              asks a run that is going on to save, or to save and end
  composer report RUN ... --output F.html     a page that shows runs, finished or going on
  composer compare RUN ... [--json]           what runs came to, and what their recipes differ in
  composer ablate -f RECIPE [--add_one_in|--pairs] [--seeds 3] [--target METRIC=VALUE] [--jobs N] [--json]
                                              what each algorithm of a recipe pays: the recipe with and without it
  composer sweep -f RECIPE --KEY V1,V2 ... [--random N] [--halving] [--price_per_hour P] [--seeds N] [--jobs N] [--json]
                                              which values of its keys pay: a grid, draws, successive halving
  composer lr-range -f RECIPE [--lr_min L] [--lr_max L] [--steps 100] [--output F.html] [--json]
                                              the learning-rate range test: which rates a recipe stands
  composer watch RUN                          follows a run in the terminal; q leaves
  composer trace now RUN_FOLDER [--steps 5]   has it trace its next steps
  composer doctor [--data PATH] [--json]      what this machine has for training, what is wrong, and what to do
  composer model info NAME|-f RECIPE [--batch_size B] [--json]
                                              a network's layers, FLOPs, memory and receptive field
  composer plan-scale -f RECIPE --gpus 8,64 --gpu h200 --network 400g [--price_per_hour P] [--json]
                                              an estimate of the training on many GPUs: images/s, time, cost
  composer trace analyze DIR|FILE... [--json] [--html F]
                                              where the time of the profiler's traces went, and what would help most
  composer trace diff A B [--json]            what two traces do differently in a step
  composer data write|index|info|hash|verify ...
                                              makes .beton files and indices; shows and checks image data
  composer [-n N] [--max_restarts K] [--requeue_status S] [--grace_seconds G] [--bind none|cores|numa] [train | eval | PATH/TO/TRAINER] ...
                                              starts N ranks on this machine; after a failure up to K times again, from
                                              the newest checkpoint; ends with S after a SIGTERM, SIGUSR1 or SIGHUP; kills ranks
                                              G seconds after it (30), unless a save goes on;
                                              binds each to its cores, or to the memory node of its GPU
  composer -n N --node_rank R --world_size W --master_addr A [--master_port P] ...
                                              the same on several machines: one such line on each

`composer SUBCOMMAND --help` says more. Exit status: 0 done, 1 the run failed, 2 the input is wrong, 129/130/138/143 interrupted.
)";

/// Opens closed standard streams, so that no other file takes their descriptors.
void open_standard_streams() {
  for (int file; (file = ::open("/dev/null", O_RDWR)) >= 0;)
    if (file > STDERR_FILENO) {
      ::close(file);
      return;
    }
}

/// Runs a command that writes nothing to disk; a signal ends it with a message.
int measure(const std::string& name, int (*command)(const Words&), const Words& words) {
  const EndsOnSignal guard(name);
  try {
    return command(words);
  } catch (const Interrupted&) {
    EndsOnSignal::tell();
    throw;
  }
}

/// Runs a command that prints text; on a terminal its lines are wrapped.
int show(int (*command)(const Words&), const Words& words) {
  if (isatty(STDOUT_FILENO) != 1 || std::ranges::find(words, "--json") != words.end())
    return command(words);
  std::ostringstream text;
  auto* const output = std::cout.rdbuf(text.rdbuf());
  const auto print = [&] {
    std::cout.rdbuf(output);
    std::cout << wrapped_for(STDOUT_FILENO, text.str());
  };
  try {
    const int status = command(words);
    print();
    return status;
  } catch (...) {
    print();
    throw;
  }
}

/// The folder in which find_package(composer) finds the installation of this program.
std::filesystem::path cmake_folder() {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const char* from : {"..", "../lib", "../lib64"}) {
    const auto folder = (here / from / "cmake/composer").lexically_normal();
    if (std::filesystem::exists(folder / "composerConfig.cmake")) return folder;
  }
  throw UserError("--cmake-dir: " + here.string() +
                  " is no folder of an installation; make one by cmake --install");
}

int run(Words words) {
  if (!words.empty() && words[0] == "help")
    std::rotate(words.begin(), words.begin() + 1, words.end()), words.back() = "--help";
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::cout << wrapped_for(STDOUT_FILENO, help);
    return 0;
  }
  if (words[0] == "--version") {
    std::cout << "composer " << version << '\n';
    return 0;
  }
  if (words[0] == "--cmake-dir") {
    std::cout << cmake_folder().string() << '\n';
    return 0;
  }
  const Launch launch = take_launch_options(words);
  if (words.empty() || words[0].starts_with("-")) {
    check_place_of_subcommand(words);
    words.insert(words.begin(), "train");
  }
  const auto command = command_table().find(words[0]);
  if (command == command_table().end()) return start_program(launch, words);
  if (words[0] != "completion") check_place_of_options(words);
  if (launch.supervised()) {
    if (only_looks(words))
      take_first_place(launch);
    else if (words[0] == "train" || words[0] == "eval")
      return run_ranks(launch, {std::filesystem::read_symlink("/proc/self/exe"), words, {}, {}});
    else
      throw UserError(launch.reason() + ": is for ranks of train, eval or a program, not of " +
                      words[0]);
  }
  const auto name = words[0];
  words.erase(words.begin());
  heed_machine_limits();
  if (name == "bench" || name == "check" || name == "lr-range")
    return measure(name, command->second, words);
  if (name == "list" || name == "describe" || name == "doctor") return show(command->second, words);
  return command->second(words);
}

/// Reports the error briefly, as the lost ranks tell the cause. Below a launcher the first rank's
/// line goes to its log file only.
int lost_ranks(const LostRankError& error) {
  const auto environment = read_rank_environment();
  if (environment.by_launcher && environment.rank == 0 && log::kept_in_file())
    log::leave_terminal();
  const std::string text = error.what();
  log::error("lost the other ranks: " + text.substr(0, text.find('\n')));
  return environment.by_launcher ? lost_ranks_status : 1;
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace

const CommandTable& command_table() {
  static const CommandTable commands = [] {
    CommandTable table;
#define X(name) table[with_dashes(#name)] = name##_command;
    COMPOSER_COMMANDS(X)
#undef X
    return table;
  }();
  return commands;
}

void add_builtin_components() {
  static bool added = false;
  if (std::exchange(added, true)) return;
  auto& known = registry();
  add_builtin_core(known);
  known.loggers.add<ReportLogger>("report", "a page that shows the run, report.html in its folder");
  add_builtin_algorithms(known);
  add_builtin_models(known);
  add_builtin_datasets(known);
}

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write then fails with an error
  try {
    install_cpu_allocator();
    add_builtin_components();
    const int status = run(Words(argv + 1, argv + argc));
    if (!std::cout.flush()) throw RunError("standard output cannot be written (disk full?)");
    return status;
  } catch (const UserError& error) {
    for (const auto& problem : error.problems()) log::error(problem);
    return 2;
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal;
  } catch (const LostRankError& error) {
    return lost_ranks(error);
  } catch (const std::filesystem::filesystem_error& error) {
    if (error.code() == std::errc::filename_too_long) {
      log::error(error.path1().string() + ": is longer than a path, or a name in it, may be");
      return 2;
    }
    log::error(std::string("failed: ") + error.what());
  } catch (const c10::Error& error) {
    log::error(std::string("failed: ") + error.what_without_backtrace());
  } catch (const std::exception& error) {
    log::error(std::string("failed: ") + error.what());
  }
  return 1;
}

}  // namespace composer
