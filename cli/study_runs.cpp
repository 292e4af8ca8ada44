#include "cli/study_runs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/machine_limits.h"
#include "base/process/supervisor.h"
#include "base/text.h"
#include "composer/run/rank_threads.h"
#include "nn/device/cuda.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// The values of CUDA_VISIBLE_DEVICES with which a child process sees one of the GPUs of this
/// process.
Words visible_gpus(int gpus) {
  Words names;
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream list(given == nullptr ? "" : given);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  for (int i = static_cast<int>(names.size()); i < gpus; ++i) names.push_back(std::to_string(i));
  names.resize(static_cast<size_t>(gpus));
  return names;
}

/// A recipe in memory that this user's processes can read while this object lives. Its secrets are
/// thus in no folder, and on no command line, which all users of the machine see.
class SecretRecipe {
 public:
  /// RunError when there is no memory for it.
  explicit SecretRecipe(std::string_view text) : file_(memory_file()) {
    const auto size = static_cast<ssize_t>(text.size());
    if (file_ >= 0 && ::write(file_, text.data(), text.size()) == size) return;
    const int error = errno;
    if (file_ >= 0) ::close(file_);
    throw RunError(std::string("a recipe cannot be held in memory: ") + std::strerror(error));
  }
  ~SecretRecipe() { ::close(file_); }
  SecretRecipe(const SecretRecipe&) = delete;
  SecretRecipe& operator=(const SecretRecipe&) = delete;

  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
  }

 private:
  /// Hardened kernels require the flag MFD_NOEXEC_SEAL; kernels before 6.3 refuse it.
  static int memory_file() {
    constexpr unsigned no_program = 8;  // MFD_NOEXEC_SEAL
    const int file = ::memfd_create("composer-recipe", MFD_CLOEXEC | no_program);
    return file >= 0 || errno != EINVAL ? file : ::memfd_create("composer-recipe", MFD_CLOEXEC);
  }

  int file_;
};

/// The running and the waiting trainings.
class Trainings {
 public:
  Trainings(const StudyFolder& folder, const std::vector<StudyTraining>& trainings,
            const MachineShares& shares, const TrainingEnded& ended)
      : folder_(folder),
        waiting_(trainings.begin(), trainings.end()),
        shares_(shares),
        ended_(ended),
        places_(shares.jobs()),
        supervisor_(options()) {}
  /// The supervisor ends the running trainings; no waiting one is started.
  ~Trainings() { waiting_.clear(); }
  Trainings(const Trainings&) = delete;
  Trainings& operator=(const Trainings&) = delete;

  int run() {
    while (start_some()) {
      supervisor_.wait();
      take_ended();
    }
    return supervisor_.asked_by();
  }

 private:
  struct Running {
    StudyTraining training;
    size_t number;  ///< number of the supervisor's child
    std::unique_ptr<SecretRecipe> recipe;
    std::ofstream log;
    bool log_failed = false;
    OtherPrograms others{};
    std::deque<std::string> last_lines;  ///< last lines of standard error
  };

  SupervisorOptions options() {
    SupervisorOptions options;
    options.fail_together = false;
    options.take_line = [this](size_t number, Stream stream, std::string_view line) {
      take(number, stream, line);
    };
    options.look = [this] {
      take_ended();
      start_some();
    };
    return options;
  }

  /// Fills free slots. Returns whether any training runs.
  bool start_some() {
    for (size_t place = 0; place < places_.size(); ++place)
      while (!places_[place] && !waiting_.empty() && supervisor_.asked_by() == 0) start(place);
    return std::ranges::any_of(places_, [](const auto& running) { return running.has_value(); });
  }

  void start(size_t place) {
    Running running;
    running.training = std::move(waiting_.front());
    waiting_.pop_front();
    const auto& training = running.training;
    running.log.open(folder_.log(training.name), std::ios::binary | std::ios::app);
    Command command;
    command.program = "/proc/self/exe";  // this program, even if its file is replaced meanwhile
    const auto share = shares_.of(place, training.options);
    command.environment = share.environment;
    command.environment["NO_COLOR"] = "1";  // the lines go to a log file
    folder_.note_jobs(training.name, std::ssize(places_));
    try {
      auto file = folder_.recipe(training.variant).string();
      if (!training.secret_recipe.empty()) {
        running.recipe = std::make_unique<SecretRecipe>(training.secret_recipe);
        file = running.recipe->path();
      }
      command.arguments = {"train",
                           "-f",
                           file,
                           "--run_dir",
                           folder_.runs().string(),
                           "--run_name",
                           training.name,
                           "--seed",
                           std::to_string(training.seed),
                           "--autoresume",
                           "true",
                           "--progress_bar",
                           "false"};
      for (const auto* words : {&share.words, &training.words})
        command.arguments.insert(command.arguments.end(), words->begin(), words->end());
      running.number = supervisor_.start(command);
    } catch (const std::exception& error) {
      ended_(training, error.what());
      return;
    }
    places_[place] = std::move(running);
  }

  void take(size_t number, Stream stream, std::string_view line) {
    constexpr size_t most_lines = 3;
    for (auto& running : places_) {
      if (!running || running->number != number) continue;
      const auto told = with_recipe_named(*running, std::string(line));
      running->log << told << '\n' << std::flush;
      if (!running->log && !std::exchange(running->log_failed, true))
        log::warn(folder_.log(running->training.name).string() +
                  ": cannot be written: the output of this training is lost");
      if (stream != Stream::errors || line.empty()) return;
      running->last_lines.push_back(told);
      if (running->last_lines.size() > most_lines) running->last_lines.pop_front();
      return;
    }
  }

  /// Replaces the path of a secret recipe by that of the recipe file, which has the same lines.
  std::string with_recipe_named(const Running& running, std::string line) const {
    if (!running.recipe) return line;
    const auto in_memory = running.recipe->path();
    if (const auto at = line.find(in_memory); at != std::string::npos)
      line.replace(at, in_memory.size(), folder_.recipe(running.training.variant).string());
    return line;
  }

  void take_ended() {
    for (auto& place : places_) {
      if (!place || supervisor_.status(place->number) < 0) continue;
      const auto running = std::move(*place);
      place.reset();
      if (const auto share = running.others.share())
        folder_.note_others(running.training.name, *share);
      ended_(running.training, problem_of(running));
    }
  }

  std::string problem_of(const Running& running) const {
    const int status = supervisor_.status(running.number);
    if (status == 0 || (supervisor_.asked_by() != 0 && status > 128)) return "";
    const auto& lines = running.last_lines;
    const auto last = joined({lines.begin(), lines.end()}, " | ");
    if (status <= 128) return last.empty() ? "ended with status " + std::to_string(status) : last;
    return std::string("was killed by signal ") + std::to_string(status - 128) + " (" +
           ::strsignal(status - 128) + ")";
  }

  const StudyFolder& folder_;
  std::deque<StudyTraining> waiting_;
  const MachineShares& shares_;
  const TrainingEnded& ended_;
  std::vector<std::optional<Running>> places_;
  Supervisor supervisor_;
};

}  // namespace

MachineShares::MachineShares(int64_t jobs, bool gpus) : jobs_(static_cast<size_t>(jobs)) {
  if (jobs == 1) return;
  const int64_t cores = usable_processors(read_machine_limits());
  if (jobs > cores)
    log::warn("--jobs: " + std::to_string(jobs) + " trainings at a time share " +
              std::to_string(cores) + (cores == 1 ? " processor" : " processors"));
  cores_ = std::max<int64_t>(cores / jobs, 1);
  if (gpus) gpus_ = visible_gpus(open_cuda().gpus);
}

MachineShare MachineShares::of(size_t place, const TrainerOptions& options) const {
  MachineShare share;
  if (jobs_ == 1) return share;
  const bool gpu = options.device != "cpu" && !gpus_.empty();
  const auto threads = share_cores(cores_, options.dataloader.num_workers, gpu);
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    share.environment["OMP_NUM_THREADS"] = std::to_string(threads.compute);
  if (gpu && gpus_.size() > 1)
    share.environment["CUDA_VISIBLE_DEVICES"] = gpus_[place % gpus_.size()];
  share.words = {"--dataloader.num_workers", std::to_string(threads.loader)};
  return share;
}

int train_all(const StudyFolder& folder, const std::vector<StudyTraining>& trainings,
              const MachineShares& shares, const TrainingEnded& ended) {
  return Trainings(folder, trainings, shares, ended).run();
}

}  // namespace composer
