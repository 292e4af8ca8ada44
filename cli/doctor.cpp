// The subcommand doctor: what this machine has for training, what is wrong, and what to do.
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/machine_limits.h"
#include "base/number_text.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/arguments.h"
#include "cli/read_speed.h"
#include "cli/spin_count.h"
#include "nn/device/cpu_instructions.h"
#include "nn/device/cuda.h"
#include "nn/device/device.h"
#include "nn/device/exception_text.h"
#include "nn/device/gpu_name.h"
#include "nn/distributed/process_group.h"
#include "nn/profiling/kineto.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

constexpr int64_t gloo_bytes = 25 << 20;

/// The facts that were found, by subject and each with a line of text, and the problems.
class Diagnosis {
 public:
  void fact(const std::string& subject, const std::string& line, ordered_json values) {
    lines_ += subject + std::string(12 - std::min<size_t>(subject.size(), 11), ' ') + line + "\n";
    facts_[subject] = std::move(values);
  }
  void problem(const std::string& what, const std::string& advice) {
    problems_.push_back({{"problem", what}, {"advice", advice}});
  }

  ordered_json json() const {
    auto all = facts_;
    all["problems"] = problems_;
    return all;
  }
  std::string text() const {
    std::string text = lines_ + "\n";
    if (problems_.empty()) text += "nothing is wrong\n";
    for (const auto& one : problems_)
      text += "- " + one["problem"].get<std::string>() + "\n  " + one["advice"].get<std::string>() +
              "\n";
    return text;
  }

 private:
  std::string lines_;
  ordered_json facts_ = ordered_json::object(), problems_ = ordered_json::array();
};

std::string gib(int64_t bytes) {
  return number_text(static_cast<double>(bytes) / (1 << 30), 1) + " GiB";
}

/// The number with three significant digits.
std::string decimal(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

/// The first line of a file; empty if it cannot be read.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

template <class T>
ordered_json value_or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

void look_at_processors(const MachineLimits& limits, Diagnosis& found) {
  std::vector<std::string> instructions;
  for (const char* name :
       {"avx2", "avx512_f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "sve", "sve2"})
    if (has_instructions(name)) instructions.push_back(name);
  const int threads = at::get_num_threads();
  const char* const set = std::getenv("OMP_NUM_THREADS");
  const auto waits = wait_settings();
  found.fact("processor", describe(at::kCPU), {{"name", describe(at::kCPU)}});
  found.fact(
      "cores",
      std::to_string(limits.processors) + ", of which this process may use " +
          std::to_string(limits.allowed_processors) +
          (limits.processor_quota ? ", for the time of " + decimal(*limits.processor_quota) : "") +
          "; load " + number_text(limits.load, 1),
      {{"machine", limits.processors},
       {"allowed", limits.allowed_processors},
       {"quota", value_or_null(limits.processor_quota)},
       {"load", limits.load}});
  found.fact("instructions", instructions.empty() ? "none of the wide ones" : joined(instructions),
             instructions);
  found.fact("threads",
             std::to_string(threads) + " compute" +
                 (set == nullptr ? std::string() : std::string(", OMP_NUM_THREADS=") + set) +
                 (waits.empty() ? waits : "; they wait by " + waits),
             {{"compute", threads},
              {"OMP_NUM_THREADS", set == nullptr ? ordered_json(nullptr) : ordered_json(set)},
              {"wait_settings", waits}});

  const double usable = std::min(static_cast<double>(limits.allowed_processors),
                                 limits.processor_quota.value_or(1e9));
  if (threads > usable + 0.5)
    found.problem(std::to_string(threads) + " threads compute, where there is the time of " +
                      decimal(usable) + " processors: they wait for each other",
                  "set OMP_NUM_THREADS=" + std::to_string(std::max(1, static_cast<int>(usable))));
  if (limits.load > static_cast<double>(limits.processors) * 1.5)
    found.problem("other programs use the processors: load " + number_text(limits.load, 1),
                  "measurements mean nothing now, and training shares the cores with them");
  const bool x86 = has_instructions("sse4_1");
  if (x86 && !has_instructions("avx2"))
    found.problem("no AVX2: arithmetic takes several times as long",
                  instruction_limit().empty()
                      ? "in a virtual machine, let it see the host's processor (-cpu host)"
                      : "take " + instruction_limit() + " out of the environment");
}

void look_at_memory(const MachineLimits& limits, Diagnosis& found) {
  const bool limited =
      limits.memory_limit_bytes && *limits.memory_limit_bytes < limits.memory_bytes;
  found.fact("memory",
             gib(limits.memory_bytes) + ", " + gib(limits.available_bytes) + " available" +
                 (limited ? "; the container may have " + gib(*limits.memory_limit_bytes) +
                                ", of which " + gib(*limits.memory_room_bytes) + " are left"
                          : ""),
             {{"bytes", limits.memory_bytes},
              {"available_bytes", limits.available_bytes},
              {"limit_bytes", value_or_null(limits.memory_limit_bytes)},
              {"room_bytes", value_or_null(limits.memory_room_bytes)}});
  const int64_t room = room_for_memory(limits);
  constexpr int64_t little = int64_t{2} << 30;
  if (room < little)
    found.problem("little memory is left: " + gib(room),
                  "end other programs, or train with smaller batches (--grad_accum) and fewer "
                  "--dataloader.prefetch_factor");

  const auto pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  found.fact("huge pages", pages.empty() ? "unknown" : pages, pages);
  if (pages.find("[never]") != std::string::npos)
    found.problem("huge pages are off: steps of small networks take longer",
                  "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
}

void look_at_limits(const MachineLimits& limits, int gpus, Diagnosis& found) {
  found.fact(
      "limits",
      (limits.open_files < 0 ? std::string("any number of") : std::to_string(limits.open_files)) +
          " open files, " + gib(limits.shared_memory_bytes) + " of shared memory (/dev/shm)",
      {{"open_files", limits.open_files}, {"shared_memory_bytes", limits.shared_memory_bytes}});
  if (limits.open_files >= 0 && limits.open_files < 1024)
    found.problem("a process may open " + std::to_string(limits.open_files) + " files only",
                  "ulimit -n 4096");
  if (gpus > 1 && limits.shared_memory_bytes < int64_t{1} << 30)
    found.problem("/dev/shm is small: NCCL needs it between the GPUs of a machine",
                  "in a container: docker run --shm-size=1g");
}

void look_at_gpus(const Cuda& cuda, Diagnosis& found) {
  std::vector<std::string> names;
  for (int index = 0; index < cuda.gpus; ++index) names.push_back(gpu_name(index));
  const auto driver = first_line("/proc/driver/nvidia/version");
  found.fact("GPUs", cuda.gpus == 0 ? "none: " + cuda.problem : joined(names),
             {{"names", names}, {"problem", cuda.problem}, {"driver", driver}});
  if (cuda.driver && cuda.gpus == 0)
    found.problem("there is a driver but no GPU that can be used: " + cuda.problem,
                  "nvidia-smi says more; in a container: docker run --gpus all");
}

void look_at_ranks(int gpus, Diagnosis& found) {
  const char* const backend = gpus > 1 ? "NCCL" : "Gloo";
  try {
    const double seconds = time_local_sum(gloo_bytes);
    found.fact("ranks",
               std::string(backend) +
                   " between local ranks; two of them add up 25 MiB by Gloo in " +
                   decimal(seconds * 1000) + " ms",
               {{"backend", backend}, {"gloo_25MiB_seconds", seconds}});
  } catch (const std::exception&) {  // Gloo throws several types
    const auto problem = text_of(std::current_exception());
    found.fact("ranks", "Gloo does not work", {{"backend", backend}, {"problem", problem}});
    found.problem("ranks of this machine cannot meet: " + problem,
                  "Gloo needs TCP on 127.0.0.1: look at firewalls, and at GLOO_SOCKET_IFNAME");
  }
}

std::string words_of(const ReadSpeed& speed) {
  constexpr double mega = 1e6;
  return decimal(speed.disk / mega) + " MB/s at first" +
         (speed.in_memory ? " (memory: its file system has no disk), " : ", ") +
         decimal(speed.cache / mega) + " MB/s again (" + std::to_string(speed.files) + " files, " +
         decimal(static_cast<double>(speed.bytes) / mega) + " MB)";
}

void look_at_data(const std::string& path, const MachineLimits& limits, Diagnosis& found) {
  constexpr double slow = 100e6;
  constexpr int64_t enough = 8 << 20;  // enough bytes to measure a disk
  const auto speed = measure_reading(path);
  found.fact("data", path + ": " + words_of(speed),
             {{"path", path},
              {"files", speed.files},
              {"bytes", speed.bytes},
              {"size", speed.size},
              {"in_memory", speed.in_memory},
              {"unreadable", speed.unreadable},
              {"disk_bytes_per_second", speed.disk},
              {"cache_bytes_per_second", speed.cache}});
  if (speed.unreadable > 0)
    found.problem(std::to_string(speed.unreadable) + " files cannot be read, the first of them " +
                      speed.why_unreadable,
                  "let this user read them (chmod, chown), or take them out of the data");
  if (speed.disk < slow && speed.bytes >= enough)
    found.problem("data come at " + decimal(speed.disk / 1e6) + " MB/s when they are not in memory",
                  "put them on a local disk, or into one .beton file (composer data write); once "
                  "read, they are fast as far as memory holds them");
  if (speed.size > room_for_memory(limits))
    found.problem("the data (" + gib(speed.size) + ") do not fit into the memory that is left",
                  "the order quasi_random of .beton files reads them page by page");
}

}  // namespace

int doctor_command(const Words& words) {
  CLI::App app(
      "Says what this machine has for training, what is wrong with it, and what to do about that.",
      "doctor");
  std::string data;
  bool as_json = false;
  app.add_flag("--json", as_json, "one JSON object");
  app.add_option("--data", data, "a file or folder of data whose reading is measured");
  if (!parse(app, words)) return 0;

  const Cuda& cuda = open_cuda();
  const auto limits = read_machine_limits();
  Diagnosis found;
  found.fact("composer",
             std::string(version) + (kineto_available() ? "" : ", without traces (no Kineto)"),
             {{"version", version}, {"kineto", kineto_available()}});
  look_at_processors(limits, found);
  look_at_memory(limits, found);
  look_at_limits(limits, cuda.gpus, found);
  look_at_gpus(cuda, found);
  look_at_ranks(cuda.gpus, found);
  if (!data.empty()) look_at_data(data, limits, found);
  constexpr auto replaced = ordered_json::error_handler_t::replace;  // for names that are not UTF-8
  std::cout << (as_json ? found.json().dump(2, ' ', false, replaced) + "\n" : found.text());
  return 0;
}

}  // namespace composer
