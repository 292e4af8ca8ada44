#include "composer/checkpoint/checkpoint_writer.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "tests/base/child_process.h"
#include "tests/composer/tiny_run.h"

namespace composer::checkpoint_writer_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// Every number in it is the batch's. So many float32 in the model, half as many beside it.
Checkpoint after_batch(int64_t batch, int64_t numbers = 1000) {
  Checkpoint checkpoint;
  checkpoint.time.batch = batch;
  const auto filled = [&](int64_t size) { return at::full({size}, batch, at::kFloat); };
  checkpoint.model = {{"weight", filled(numbers)}};
  checkpoint.optimizer.tensors = {{"momentum_buffer.weight", filled(numbers / 2)}};
  return checkpoint;
}

void check_is_of(const Checkpoint& checkpoint, int64_t batch) {
  CHECK(checkpoint.time.batch == batch);
  for (const auto& tensor :
       {checkpoint.model.at("weight"), checkpoint.optimizer.tensors.at("momentum_buffer.weight")})
    CHECK(tensor.eq(batch).all().item<bool>());
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TrainerParts parts_in(const TemporaryFolder& folder) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  return parts;
}

/// Calls `action` when each batch has ended.
class EachBatch : public Callback {
 public:
  explicit EachBatch(std::function<void(int64_t batch)> action) : action_(std::move(action)) {}
  void batch_end(const State& state, Logger&, RunControl&) override { action_(state.time.batch); }

 private:
  std::function<void(int64_t batch)> action_;
};

/// Saves one checkpoint after the other from the newest on, and writes the batch of each that is
/// whole.
[[noreturn]] void save_until_killed(const fs::path& folder, int whole) {
  at::set_num_threads(1);  // a forked process has no other compute threads
  const auto newest = newest_checkpoint(folder);
  int64_t batch = newest ? load_checkpoint(*newest).time.batch : 0;
  CheckpointWriter writer(folder, {}, {.newest_to_keep = 2});
  for (;;) {
    writer.start(after_batch(++batch, 200'000), {.best = batch % 3 == 0});
    if (!writer.wait()->problem.empty()) ::_exit(1);
    if (::write(whole, &batch, sizeof batch) != sizeof batch) ::_exit(1);
  }
}

/// Kills it some time after its first checkpoint; returns the last one it said is whole.
int64_t kill_while_saving(const fs::path& folder, std::chrono::microseconds when) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t process = ::fork();
  if (process == 0) save_until_killed(folder, pipe[1]);
  ::close(pipe[1]);
  int64_t batch = 0, last = 0;
  REQUIRE(::read(pipe[0], &last, sizeof last) == sizeof last);
  std::this_thread::sleep_for(when);
  ::kill(process, SIGKILL);
  while (::read(pipe[0], &batch, sizeof batch) == sizeof batch) last = batch;
  ::close(pipe[0]);
  ::waitpid(process, nullptr, 0);
  return last;
}

void check_kills(int kills) {
  const TemporaryFolder folder;
  std::mt19937 random(7);
  int in_the_middle = 0;
  for (int i = 0; i < kills || (in_the_middle == 0 && i < 50); ++i) {
    const auto last =
        kill_while_saving(folder.path(), std::chrono::microseconds(random() % 60'000));
    for (const auto& name : names_in(folder.path())) in_the_middle += name.ends_with(".tmp");
    const auto newest = newest_checkpoint(folder.path());
    REQUIRE(newest);
    const auto checkpoint = load_checkpoint(*newest);
    CHECK(checkpoint.time.batch >= last);
    CHECK(checkpoint.time.batch <= last + 1);
    check_is_of(checkpoint, checkpoint.time.batch);
    CHECK(load_checkpoint(folder / "latest").time.batch >= last);
  }
  CHECK(in_the_middle > 0);
}

}  // namespace

TEST_CASE("a checkpoint holds what the tensors were when it began", "[checkpoint]") {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path(), {}, {});
  for (int64_t batch = 1; batch <= 3; ++batch) {
    auto checkpoint = after_batch(batch, 1'000'000);
    auto& weight = checkpoint.model["weight"];
    weight = weight.reshape({10, 10, 100, 100}).contiguous(at::MemoryFormat::ChannelsLast);
    writer.start(checkpoint, {});
    CHECK(writer.busy());
    for (auto* tensors : {&checkpoint.model, &checkpoint.optimizer.tensors})
      for (auto& [name, tensor] : *tensors) tensor.fill_(-1);
    const auto outcome = writer.wait();
    REQUIRE(outcome);
    CHECK(outcome->problem.empty());
    CHECK_FALSE(writer.busy());
    check_is_of(load_checkpoint(folder.path() / outcome->name), batch);
  }
}

TEST_CASE("what came of a checkpoint is told once it is there", "[checkpoint]") {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path(), {}, {.newest_to_keep = 1});
  CHECK_FALSE(writer.poll());
  CHECK_FALSE(writer.wait());
  for (const int64_t batch : {1, 2, 3}) {
    writer.start(after_batch(batch), {.best = batch == 1});
    std::optional<SaveOutcome> outcome;
    while (!(outcome = writer.poll())) std::this_thread::yield();
    CHECK(outcome->name == "ep0-ba" + std::to_string(batch));
    CHECK(fs::read_symlink(folder / "latest") == outcome->name);
    CHECK_FALSE(writer.poll());
  }
  CHECK(names_in(folder.path()) == std::set<std::string>{"best", "ep0-ba1", "ep0-ba3", "latest"});
}

TEST_CASE("behind and in the training thread the same files are written", "[checkpoint]") {
  const TemporaryFolder behind, at_once;
  const auto write = [](const TemporaryFolder& folder, bool is_behind) {
    CheckpointWriter writer(folder.path(), {}, {.behind = is_behind});
    writer.start(after_batch(1), {});
    return folder.path() / writer.wait()->name;
  };
  const auto a = write(behind, true), b = write(at_once, false);
  CHECK(names_in(a) == names_in(b));
  const auto bytes = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const auto& name : names_in(a)) CHECK(bytes(a / name) == bytes(b / name));
}

TEST_CASE("a checkpoint that fails leaves nothing but the one before", "[checkpoint]") {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path(), {}, {.behind = GENERATE(true, false)});
  writer.start(after_batch(1), {});
  writer.wait();

  auto infinite = after_batch(2);
  infinite.model["weight"][3] = std::numeric_limits<float>::infinity();
  writer.start(infinite, {.best = true});
  auto outcome = writer.wait();
  CHECK(outcome->not_finite);
  CHECK_THAT(outcome->problem, Contains("not finite (weight) at batch 2"));

  auto unknown = after_batch(3);
  unknown.optimizer.tensors["momentum_buffer.weight"] = at::zeros({2}, at::kComplexFloat);
  writer.start(unknown, {});
  outcome = writer.wait();
  CHECK_FALSE(outcome->not_finite);
  CHECK_THAT(outcome->problem, Contains("momentum_buffer.weight"));

  CHECK(names_in(folder.path()) == std::set<std::string>{"ep0-ba1", "latest"});
  check_is_of(load_checkpoint(folder / "latest"), 1);
  writer.start(after_batch(4), {});
  CHECK(writer.wait()->problem.empty());
  CHECK(newest_checkpoint(folder.path()) == folder / "ep0-ba4");
}

TEST_CASE("a run that cannot save ends, or goes on and tries again", "[trainer][save]") {
  const TemporaryFolder folder;
  const auto path = folder / "run/checkpoints";
  auto parts = parts_in(folder);
  parts.options.save_async = GENERATE(true, false);
  parts.options.on_save_error = GENERATE("error", "warn");
  parts.options.save_interval = {2, TimeUnit::batch};
  const bool ends = parts.options.on_save_error == "error";
  Trainer trainer(std::move(parts));
  trainer.add<EachBatch>("in the way", [&](int64_t batch) {
    if (batch == 1) std::ofstream(path) << "in the way";
    if (batch == 6) fs::remove(path);
  });
  if (ends) {
    CHECK_THROWS_WITH(trainer.fit(), Contains("cannot be written") && Contains(path.string()));
    CHECK(trainer.state().time.batch <= 4);
    return;
  }
  const auto summary = trainer.fit();
  CHECK(summary.status == "completed");
  CHECK(summary.message.empty());
  CHECK_FALSE(fs::exists(path / "ep0-ba2"));
  CHECK(fs::exists(path / "ep1-ba6"));
  CHECK(newest_checkpoint(path) == path / "ep2-ba8");
}

TEST_CASE("a run whose last checkpoint cannot be saved says so in the end", "[trainer][save]") {
  const TemporaryFolder folder;
  const auto path = folder / "run/checkpoints";
  auto parts = parts_in(folder);
  parts.options.save_async = GENERATE(true, false);
  parts.options.on_save_error = "warn";
  Trainer trainer(std::move(parts));
  trainer.add<EachBatch>("in the way", [&](int64_t batch) {
    if (batch == 1) std::ofstream(path) << "in the way";
  });
  const auto summary = trainer.fit();
  CHECK(summary.status == "completed");
  CHECK_THAT(summary.message,
             Contains("there is no checkpoint of its end: ") && Contains("cannot be written"));
}

TEST_CASE("metrics say how long each checkpoint held up training", "[trainer][save]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.options.save_async = GENERATE(true, false);
  parts.options.save_interval = {3, TimeUnit::batch};
  Trainer(std::move(parts)).fit();
  std::vector<int64_t> batches;
  std::ifstream file(folder / "run/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.at("event") != "save") continue;
    batches.push_back(entry.at("batch"));
    CHECK(entry.at("checkpoint/stall_seconds") > 0);
  }
  CHECK(batches == std::vector<int64_t>{3, 6, 8});
}

TEST_CASE("a run that fails keeps the checkpoint that was being written", "[trainer][save]") {
  const TemporaryFolder folder;
  Trainer trainer(parts_in(folder));
  trainer.add<EachBatch>("fail", [](int64_t batch) {
    if (batch == 5) throw RunError("as the test wants it");
  });
  CHECK_THROWS_WITH(trainer.fit(), Contains("as the test wants it"));
  CHECK(names_in(folder / "run/checkpoints") == std::set<std::string>{"ep1-ba4", "latest"});
}

TEST_CASE("killed while it saves, a run leaves a whole checkpoint", "[checkpoint][kill]") {
  check_kills(5);
}

TEST_CASE("killed at 50 instants while it saves, a run leaves a whole checkpoint each time",
          "[checkpoint][kill][slow]") {
  check_kills(50);
}

}  // namespace composer::checkpoint_writer_test
