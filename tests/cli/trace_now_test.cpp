// Traces that the program makes, and those that others ask it for.
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "tests/cli/program.h"
#include "tests/composer/read_trace.h"
#include "tests/temporary_folder.h"

namespace composer::trace_now_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

const std::string small =
    "train --run_dir runs --train_dataset.shapes.samples 64 --val_dataset.shapes.samples 32 "
    "--train_batch_size 16 --eval_batch_size 32 --num_workers 1 --precision fp32 --device cpu "
    "--eval_interval 0 --save_interval 0 ";

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A daemon as Dynolog's is: answers each process that asks, the first with the wish for a trace of
/// two steps, asked_<process>.json in `folder`.
class Daemon {
 public:
  explicit Daemon(fs::path folder) : folder_(std::move(folder)) {
    std::ofstream(folder_ / "kineto.conf") << "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n";
    config_ =
        "PROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=1\n"
        "ACTIVITIES_WARMUP_ITERATIONS=1\nACTIVITIES_ITERATIONS=2\n"
        "ACTIVITIES_LOG_FILE=" +
        (folder_ / "asked.json").string() + "\n";
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (folder_ / "dynolog").c_str(), sizeof address.sun_path - 1);
    bound_ = ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    thread_ = std::thread([this] { serve(); });
  }
  ~Daemon() {
    stop_ = true;
    thread_.join();
    ::close(socket_);
  }
  bool bound() const { return bound_; }
  int questions() const { return questions_; }

  /// The program, which is told of this daemon.
  std::unique_ptr<Process> start(const std::string& words) const {
    const std::pair<const char*, std::string> variables[] = {
        {"KINETO_USE_DAEMON", "1"},
        {"KINETO_IPC_SOCKET_DIR", folder_.string()},
        {"KINETO_CONFIG", (folder_ / "kineto.conf").string()}};
    for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
    auto process = std::make_unique<Process>(folder_, split(words));
    for (const auto& [name, value] : variables) unsetenv(name);
    return process;
  }

 private:
  struct Header {
    uint64_t size;
    char type[32];
  };

  void serve() {
    const timeval wait{.tv_sec = 0, .tv_usec = 50'000};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    std::vector<char> datagram(1 << 16);
    while (!stop_) {
      sockaddr_un from{};
      socklen_t size = sizeof from;
      const auto got = ::recvfrom(socket_, datagram.data(), datagram.size(), 0,
                                  reinterpret_cast<sockaddr*>(&from), &size);
      if (got < static_cast<ssize_t>(sizeof(Header))) continue;
      Header header;
      std::memcpy(&header, datagram.data(), sizeof header);
      ++questions_;
      const std::string type = header.type;
      if (type == "req") answer(header, std::exchange(config_, ""), from, size);
      const int32_t instances = 1;
      if (type == "ctxt")
        answer(header, {reinterpret_cast<const char*>(&instances), sizeof instances}, from, size);
    }
  }

  void answer(Header header, const std::string& body, const sockaddr_un& to, socklen_t size) {
    header.size = body.size();
    std::string datagram(reinterpret_cast<const char*>(&header), sizeof header);
    datagram += body;
    ::sendto(socket_, datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&to),
             size);
  }

  fs::path folder_;
  std::string config_;
  std::atomic<int> questions_ = 0;
  int socket_ = -1;
  bool bound_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("train --profile leaves a trace in which all of a step is named", "[cli]") {
  const TemporaryFolder folder;
  const auto outcome =
      run(folder.path(), split(small + "--run_name run --max_duration 4ep --profile"));
  INFO(outcome.errors);
  REQUIRE(outcome.status == 0);
  const ReadTrace trace(folder / "runs/run/traces/rank0.6.pt.trace.json.gz");
  CHECK(trace.steps() == std::vector<int64_t>{6, 7, 8, 9, 10});
  CHECK(trace.overlap() == "");
  CHECK(trace.covered() >= 0.97);
  for (const char* name : {"read", "decode"}) {
    INFO(name);
    const auto rows = trace.rows_with(name);
    REQUIRE(rows.size() == 1);
    CHECK_THAT(*rows.begin(), Contains("(loader 0)"));
  }
  CHECK_THAT(bytes_of(folder / "runs/run/hparams.yaml"), Contains("active: 5"));
  CHECK_THAT(outcome.errors, !Contains("ERROR"));

  const auto wrong =
      run(folder.path(), split(small + "--run_name w --max_duration 1ba --profiler.with_stack"));
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.errors, Contains("profiler.with_stack"));
}

TEST_CASE("trace now has all ranks trace the same steps, to the same bytes", "[cli][long]") {
  const TemporaryFolder folder;
  const auto training = [&](const std::string& name) {
    return split("-n 2 " + small + "--max_duration 60ep --run_name " + name);
  };
  const auto ask = [&] { return run(folder.path(), split("trace now runs/traced --steps 3")); };
  const auto early = ask();
  CHECK(early.status == 2);
  CHECK_THAT(early.errors, Contains("runs/traced"));

  const Process process(folder.path(), training("traced"));
  Outcome told = ask();
  while (told.status == 2 && !process.poll()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    told = ask();
  }
  INFO(told.errors);
  REQUIRE(told.status == 0);
  std::istringstream lines(told.output);
  std::vector<std::vector<int64_t>> steps;
  for (std::string line; std::getline(lines, line);) {
    const ReadTrace trace(folder / line);
    CHECK(trace.overlap() == "");
    CHECK(trace.json()["distributedInfo"]["rank"] == steps.size());
    CHECK(trace.count("gather") > 0);
    steps.push_back(trace.steps());
  }
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].size() == 3);
  CHECK(steps[0] == steps[1]);
  CHECK(process.wait().status == 0);

  const auto plain = run(folder.path(), training("plain"));
  CHECK(plain.status == 0);
  const fs::path weights = "checkpoints/latest/model-00001-of-00001.safetensors";
  const auto bytes = bytes_of(folder / "runs/plain" / weights);
  CHECK_FALSE(bytes.empty());
  CHECK(bytes == bytes_of(folder / "runs/traced" / weights));

  const auto late = ask();
  CHECK(late.status == 2);
  CHECK_THAT(late.errors, Contains("no run is going on there"));
}

TEST_CASE("a profiling daemon gets a trace of a run's next steps, and nobody else", "[cli]") {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  REQUIRE(daemon.bound());
  const auto process = daemon.start(small + "--run_name run --max_duration 100000ep");
  const auto file = folder / ("asked_" + std::to_string(process->id()) + ".json");
  const double begin = steady_seconds();
  nlohmann::json json;
  while (!process->poll() && steady_seconds() < begin + 120 && !json.is_object()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    json = nlohmann::json::parse(bytes_of(file), nullptr, /*allow_exceptions=*/false);
  }
  const auto refused = run(folder.path(), split("trace now runs/run --steps 60"));
  process->signal(SIGTERM);
  const auto ended = process->wait();
  INFO(ended.errors);
  REQUIRE(json.is_object());
  CHECK(ReadTrace(json).steps().size() >= 1);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.errors,
             Contains("runs/run: KINETO_USE_DAEMON is set for this run: Dynolog's"));
  CHECK_FALSE(fs::exists(folder / "runs/run/traces"));
  CHECK(ended.status == 128 + SIGTERM);
}

TEST_CASE("a schedule of traces keeps a profiling daemon out", "[cli]") {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  REQUIRE(daemon.bound());
  const auto ended = daemon.start(small + "--run_name run --max_duration 4ep --profile")->wait();
  INFO(ended.errors);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors, Contains("KINETO_USE_DAEMON is not heeded"));
  CHECK(ReadTrace(folder / "runs/run/traces/rank0.6.pt.trace.json.gz").steps().size() == 5);
  CHECK(daemon.questions() == 0);
}

}  // namespace composer::trace_now_test
