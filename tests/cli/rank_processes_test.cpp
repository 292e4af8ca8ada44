// Ranks as processes of their own, whoever starts them.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "base/clock.h"
#include "program.h"
#include "tests/python.h"
#include "tests/temporary_folder.h"

namespace composer::rank_processes_test {

namespace fs = std::filesystem;

namespace {

/// Four batches an epoch.
const auto training_without_end = split(
    "train --run_dir runs --train_dataset.shapes.samples 64 --val_dataset.shapes.samples 32 "
    "--train_batch_size 16 --eval_batch_size 32 --num_workers 1 --precision "
    "fp32 --device cpu --save_interval 1ba");
const auto small_training = training_without_end + split("--max_duration 2ep");

std::vector<pid_t> processes_in(const fs::path& folder) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code gone;
    const auto name = entry.path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0 &&
        fs::read_symlink(entry.path() / "cwd", gone) == fs::canonical(folder))
      found.push_back(std::stoi(name));
  }
  return found;
}

nlohmann::json summary_of(const fs::path& run) {
  std::ifstream file(run / "summary.json");
  return nlohmann::json::parse(file);
}

void check_two_ranks_trained(const TemporaryFolder& folder, const Outcome& outcome) {
  INFO(outcome.output << outcome.errors);
  CHECK(outcome.status == 0);
  REQUIRE(fs::exists(folder / "runs/run/summary.json"));
  const auto summary = summary_of(folder / "runs/run");
  CHECK(summary["world_size"] == 2);
  CHECK(summary["batches"] == 8);
  CHECK(summary["status"] == "completed");
}

/// `training` on three ranks, of which one by chance is killed by and by, `kills` times.
void check_survives(int kills, std::vector<std::string> training) {
  const TemporaryFolder folder;
  const auto start = split("-n 3 --max_restarts " + std::to_string(kills)) + training;
  const auto whole = run(folder.path(), split("-n 3") + training + split("--run_name whole"));
  INFO(whole.errors);
  REQUIRE(whole.status == 0);

  std::mt19937 draw(static_cast<unsigned>(kills));
  const Process process(folder.path(), start);
  std::optional<Outcome> ended;
  int done = 0;
  for (double next = steady_seconds() + 1; !(ended = process.poll());) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (done == kills || steady_seconds() < next) continue;
    auto ranks = processes_in(folder.path());
    std::erase(ranks, process.id());
    if (ranks.size() != 3) continue;
    done += ::kill(ranks[draw() % 3], SIGKILL) == 0;
    next = steady_seconds() + std::uniform_real_distribution(0.5, 5.0)(draw);
  }
  INFO(ended->errors);
  REQUIRE(ended->status == 0);
  CHECK(done == kills);
  CHECK(processes_in(folder.path()).empty());
  fs::path survivor;
  for (const auto& entry : fs::directory_iterator(folder / "runs"))
    if (entry.path().filename() != "whole") survivor = entry.path();
  CHECK(killed::difference(survivor, folder / "runs/whole") == "");
  for (const auto& entry : fs::directory_iterator(survivor / "checkpoints")) {
    const auto name = entry.path().filename().string();
    CHECK((name.starts_with("ep") || name == "latest"));
  }
}

/// Two network namespaces with a cable between them, for two machines: 10.77.0.1 and 10.77.0.2.
class TwoHosts {
 public:
  TwoHosts() {
    const auto id = std::to_string(getpid());
    for (const char* letter : {"a", "b"}) names_.push_back("composer-" + id + letter);
    made_ = ip("netns add " + names_[0]) && ip("netns add " + names_[1]) &&
            ip("link add ca" + id + " netns " + names_[0] + " type veth peer name cb" + id +
               " netns " + names_[1]) &&
            up(0, "ca" + id) && up(1, "cb" + id);
  }
  ~TwoHosts() {
    for (const auto& name : names_) ip("netns del " + name);
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool made() const { return made_; }

  /// A launcher of two ranks on that host.
  Process start(size_t host, const fs::path& folder, const std::vector<std::string>& options,
                const std::vector<std::string>& training) const {
    return Process(folder,
                   split("netns exec " + names_[host] + " " PROGRAM " -n 2 --node_rank " +
                         std::to_string(host) + " --world_size 4 --master_addr 10.77.0.1") +
                       options + training,
                   "/sbin/ip");
  }

 private:
  static bool ip(const std::string& words) {
    return std::system(("/sbin/ip " + words + " 2>/dev/null").c_str()) == 0;
  }
  bool up(size_t host, const std::string& device) const {
    const auto in = "-n " + names_[host] + " ";
    return ip(in + "addr add 10.77.0." + std::to_string(host + 1) + "/24 dev " + device) &&
           ip(in + "link set " + device + " up") && ip(in + "link set lo up");
  }

  std::vector<std::string> names_;
  bool made_ = false;
};

}  // namespace

TEST_CASE("two machines train together, and start again together", "[cli][train][slow]") {
  const TwoHosts hosts;
  if (!hosts.made()) {
    WARN("skipped: no network namespaces can be made here");
    return;
  }
  const TemporaryFolder folder;
  for (const bool killed : {false, true}) {
    const auto name = killed ? std::string("killed") : std::string("run");
    const auto training = training_without_end + split("--max_duration 6ep --run_name " + name);
    const auto options = split("--max_restarts 1");
    const auto first = hosts.start(0, folder.path(), options, training);
    const auto second = hosts.start(1, folder.path(), options, training);
    std::optional<Outcome> early;
    while (killed && killed::batches_saved(folder / ("runs/" + name)) < 3 &&
           !(early = first.poll()))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    INFO((early ? early->errors : ""));
    REQUIRE_FALSE(early);
    if (killed) CHECK(std::system(("pkill -9 -n -P " + std::to_string(second.id())).c_str()) == 0);
    const auto of_first = first.wait(), of_second = second.wait();
    INFO(of_first.errors << of_second.errors);
    CHECK(of_first.status == 0);
    CHECK(of_second.status == 0);
    CHECK(summary_of(folder / ("runs/" + name))["world_size"] == 4);
    CHECK((of_first.errors.find("start again") != std::string::npos) == killed);
    CHECK((of_second.errors.find("was killed by signal 9") != std::string::npos) == killed);
  }
  CHECK(killed::difference(folder / "runs/killed", folder / "runs/run") == "");
}

TEST_CASE("composer -n 2 trains, and each rank has its log", "[cli][train][slow]") {
  const TemporaryFolder folder;
  const auto outcome =
      Process(folder.path(), split("-n 2") + small_training + split("--run_name run")).wait();
  check_two_ranks_trained(folder, outcome);
  CHECK(fs::exists(folder / "runs/run/logs/rank1.log"));
  CHECK(killed::bytes_of(folder / "runs/run/logs/rank0.log").find("completed after 2 epochs") !=
        std::string::npos);
}

TEST_CASE("torchrun starts ranks", "[cli][train][slow][peer]") {
  const auto torchrun = fs::path(test::python()).parent_path() / "torchrun";
  if (!test::has_python() || !fs::exists(torchrun)) {
    WARN("skipped: no " << torchrun);
    return;
  }
  const TemporaryFolder folder;
  const auto outcome =
      Process(folder.path(),
              split("--nnodes 1 --nproc_per_node 2 --rdzv_backend c10d --rdzv_endpoint localhost:0 "
                    "--no_python " PROGRAM) +
                  small_training + split("--run_name run"),
              torchrun)
          .wait();
  check_two_ranks_trained(folder, outcome);
}

TEST_CASE("mpirun starts ranks", "[cli][train][slow]") {
  if (!fs::exists("/usr/bin/mpirun")) {
    WARN("skipped: no /usr/bin/mpirun (Debian's openmpi-bin)");
    return;
  }
  const TemporaryFolder folder;
  const auto outcome = Process(folder.path(),
                               split("--allow-run-as-root --oversubscribe -n 2 " PROGRAM) +
                                   small_training + split("--run_name run"),
                               "/usr/bin/mpirun")
                           .wait();
  check_two_ranks_trained(folder, outcome);
}

TEST_CASE("srun, here a script that sets its variables, starts ranks", "[cli][train][slow]") {
  const TemporaryFolder folder;
  folder.write("srun", R"(#!/bin/sh
export SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0
export SLURM_STEP_NODELIST=node1 SLURM_JOB_NODELIST=node1 SLURM_STEP_TASKS_PER_NODE=2
SLURM_PROCID=1 SLURM_LOCALID=1 "$@" &
SLURM_PROCID=0 SLURM_LOCALID=0 "$@" && wait $!
)");
  const auto outcome =
      Process(folder.path(), split("srun " PROGRAM) + small_training + split("--run_name run"),
              "/bin/sh")
          .wait();
  check_two_ranks_trained(folder, outcome);
}

TEST_CASE("ranks that are killed start again and end in the same bytes", "[cli][resume][slow]") {
  check_survives(2, training_without_end + split("--max_duration 16ep"));
}

TEST_CASE("ranks that divide images start again and end in the same bytes", "[cli][resume][long]") {
  check_survives(2, training_without_end + split("--max_duration 16ep --spatial_ranks 3"));
}

TEST_CASE("ranks that divide weights start again and end in the same bytes",
          "[cli][resume][long]") {
  check_survives(2, training_without_end + split("--max_duration 16ep --parallelism fsdp"));
}

TEST_CASE("ranks that divide the optimizer's state start again and end in the same bytes",
          "[cli][resume][long]") {
  check_survives(2, training_without_end + split("--max_duration 16ep --parallelism zero1"));
}

TEST_CASE("twenty kills at any instant leave the same bytes", "[cli][resume][.long]") {
  check_survives(20, training_without_end + split("--max_duration 200ep"));
}

TEST_CASE("a rank that stops answering ends the run", "[cli][slow]") {
  const TemporaryFolder folder;
  const Process process(folder.path(),
                        split("-n 2") + training_without_end +
                            split("--run_name run --max_duration 1000ep --dist_timeout 10"));
  std::optional<Outcome> ended;
  while (killed::batches_saved(folder / "runs/run") < 2 && !(ended = process.poll()))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  INFO((ended ? ended->errors : ""));
  REQUIRE_FALSE(ended);
  auto ranks = processes_in(folder.path());
  std::erase(ranks, process.id());
  REQUIRE(ranks.size() == 2);
  ::kill(std::max(ranks[0], ranks[1]), SIGSTOP);
  const double begin = steady_seconds();
  const auto outcome = process.wait();
  INFO(outcome.errors);
  CHECK(steady_seconds() - begin < 60);
  CHECK(outcome.status == 1);
  CHECK(outcome.errors.find("did not answer any more, and was killed") != std::string::npos);
  CHECK(processes_in(folder.path()).empty());
}

}  // namespace composer::rank_processes_test
