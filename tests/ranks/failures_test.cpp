// What ends one rank ends all, soon and with a word of the one that it happened to.
#include <catch2/catch.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "nn/distributed/ranks.h"
#include "tests/data/photos.h"
#include "tests/ranks/double_run.h"
#include "tests/ranks/rank_processes.h"
#include "tests/temporary_folder.h"

namespace composer::failures_test {

using namespace composer::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// Far less than dist_timeout, and enough for a busy machine.
constexpr double soon = 120;

const std::string quick_training =
    "train --run_dir . --run_name run --train_dataset.shapes.samples 64 "
    "--val_dataset.shapes.samples 50 --train_batch_size 16 --eval_batch_size 16 --precision fp32 "
    "--num_workers 1 --device cpu --log_interval 1ba ";

nlohmann::json json_of(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

bool has_trained(const fs::path& folder) {
  std::ifstream file(folder / "run/metrics.jsonl");
  std::string line;
  return static_cast<bool>(std::getline(file, line));
}

void check_all(RankProcesses& ranks, size_t size, int status) {
  REQUIRE(ranks.end_within(soon));
  for (size_t rank = 0; rank < size; ++rank) {
    CAPTURE(rank, ranks.outcome(rank).errors);
    CHECK(ranks.outcome(rank).status == status);
  }
}

/// Drawn photographs, one of them cut short.
void draw_photos(const fs::path& folder) {
  test::draw_photos(folder, 48, [](int) { return 40; });
  fs::resize_file(folder / "1/21.jpg", 100);
}

constexpr const char* photo_recipe = R"(
model: {resnet_cifar: {model_name: resnet_20, num_classes: 4}}
train_dataset: {image_folder: {datadir: photos, crop_size: 32}}
optimizer: {sgd: {lr: 0.05}}
train_batch_size: 16
max_duration: 1ep
eval_interval: 0ep
dataloader: {num_workers: 1}
progress_bar: false
run_dir: .
run_name: run
device: cpu
)";

/// Fails on rank 1 where its `at` finds it, in the third batch.
struct Failing : Algorithm {
  explicit Failing(std::string at) : at(std::move(at)) {}
  void after_dataloader(State& state) override { look(state, "after_dataloader"); }
  void after_loss(State& state) override { look(state, "after_loss"); }
  void after_backward(State& state) override { look(state, "after_backward"); }
  void batch_end(State& state) override { look(state, "batch_end"); }
  void eval_start(State& state) override { look(state, "eval_start"); }
  void look(const State& state, const std::string& event) const {
    if (event == at && state.ranks.rank() == 1 && state.time.batch >= 2)
      throw RunError("it went wrong in " + at);
  }
  std::string at;
};

}  // namespace

// The process of a rank for the test below.
TEST_CASE("child: a rank that fails", "[.]") {
  const auto environment = read_rank_environment();
  const auto ranks = join_ranks(environment, at::kCPU, 300);
  auto parts = small_parts(std::make_shared<GroupNormModel>(), 20, 12);
  parts.options.eval_interval = {3, TimeUnit::batch};
  parts.train_loader = noise_loader(100, 12, true, ranks);
  parts.eval_loader = noise_loader(37, 6, false, ranks);
  parts.ranks = ranks;
  Trainer trainer(std::move(parts));
  trainer.add<Failing>("failing", std::getenv("FAILS_AT"));
  trainer.fit();
}

TEST_CASE("a rank that throws ends the others, wherever they are", "[ranks]") {
  const std::string at = GENERATE(as<std::string>(), "after_dataloader", "after_loss",
                                  "after_backward", "batch_end", "eval_start");
  const TemporaryFolder folder;
  setenv("FAILS_AT", at.c_str(), 1);
  RankProcesses ranks(folder.path(), 3, {"child: a rank that fails"},
                      fs::read_symlink("/proc/self/exe"));
  REQUIRE(ranks.end_within(soon));
  for (const size_t rank : {0, 1, 2}) {
    const auto& outcome = ranks.outcome(rank);
    CAPTURE(at, rank, outcome.output, outcome.errors);
    CHECK(outcome.status == 1);  // the number of Catch's failed tests
    const bool own = outcome.output.find("it went wrong in " + at) != std::string::npos;
    CHECK(own == (rank == 1));
    if (!own) CHECK_THAT(outcome.output, Contains("another rank has ended"));
  }
}

TEST_CASE("an image that one rank cannot read ends all ranks", "[ranks]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos");
  folder.write("r.yaml", photo_recipe);
  RankProcesses ranks(folder.path(), 2, split("train -f r.yaml"));
  check_all(ranks, 2, 1);
  int told = 0;
  for (const size_t rank : {0, 1})
    told += ranks.outcome(rank).errors.find("21.jpg") != std::string::npos;
  CHECK(told == 1);
}

TEST_CASE("an image that one rank skips leaves the ranks in step", "[ranks]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos");
  folder.write("r.yaml", photo_recipe);
  RankProcesses ranks(folder.path(), 2,
                      split("train -f r.yaml --on_bad_sample skip --train_batch_size 3"));
  check_all(ranks, 2, 0);
  CHECK(json_of(folder / "run/summary.json").at("samples") == 47);
}

TEST_CASE("a checkpoint that one rank does not see is refused by all", "[ranks]") {
  const TemporaryFolder folder;
  for (const char* name : {"rank0", "rank1"}) fs::create_directory(folder / name);
  auto in_amp = quick_training;
  in_amp.replace(in_amp.find("fp32"), 4, "amp");
  const auto train = [&](int ranks, const std::string& words) {
    return RankProcesses(
        folder.path(), ranks,
        {"-c", "cd rank$RANK && exec " + std::string(PROGRAM) + " " + in_amp + words}, "/bin/sh");
  };
  auto first = train(1, "--max_duration 1ep");
  check_all(first, 1, 0);
  auto both = train(2, "--max_duration 2ep --autoresume true");
  check_all(both, 2, 2);
  CHECK_THAT(both.outcome(1).errors,
             Contains("rank 1: run_dir: ./run/checkpoints/ep1-ba4 does not exist"));
}

TEST_CASE("ranks that divide images may leave none out", "[ranks]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos");
  folder.write("r.yaml", photo_recipe);
  RankProcesses ranks(folder.path(), 2,
                      split("train -f r.yaml --on_bad_sample skip --spatial_ranks 2"));
  check_all(ranks, 2, 2);
  CHECK_THAT(ranks.outcome(0).errors,
             Contains("dataloader.on_bad_sample: skip cannot be with spatial_ranks"));
}

TEST_CASE("a rank that is stopped ends the others after dist_timeout", "[ranks][slow]") {
  const TemporaryFolder folder;
  RankProcesses ranks(
      folder.path(), 2,
      split(quick_training + "--max_duration 100000ep --eval_interval 0 --dist_timeout 20"));
  REQUIRE(RankProcesses::within(soon, [&] { return has_trained(folder.path()); }));
  ranks[1].signal(SIGSTOP);
  REQUIRE(RankProcesses::within(soon, [&] { return ranks.ended(0); }));
  CHECK(ranks.outcome(0).status == 1);
  CHECK_FALSE(ranks.ended(1));
  CHECK(json_of(folder / "run/summary.json").at("status") == "failed");
}

TEST_CASE("a rank that is killed ends the others", "[ranks]") {
  const std::string mode = GENERATE("--parallelism ddp", "--parallelism zero1",
                                    "--parallelism fsdp", "--spatial_ranks 3");
  const size_t killed = GENERATE(0u, 2u);
  CAPTURE(mode, killed);
  const TemporaryFolder folder;
  RankProcesses ranks(folder.path(), 3,
                      split(quick_training + "--max_duration 100000ep --eval_interval 0 " + mode));
  REQUIRE(RankProcesses::within(soon, [&] { return has_trained(folder.path()); }));
  ranks[killed].signal(SIGKILL);
  REQUIRE(ranks.end_within(soon));
  for (const size_t rank : {0, 1, 2})
    CHECK(ranks.outcome(rank).status == (rank == killed ? 128 + SIGKILL : 1));
}

TEST_CASE("a signal to one rank saves and stops all", "[ranks]") {
  const size_t signalled = GENERATE(0u, 1u);
  const TemporaryFolder folder;
  RankProcesses ranks(folder.path(), 2,
                      split(quick_training + "--max_duration 100000ep --save_interval 0"));
  REQUIRE(RankProcesses::within(soon, [&] { return has_trained(folder.path()); }));
  ranks[signalled].signal(SIGTERM);
  check_all(ranks, 2, 128 + SIGTERM);
  CHECK(json_of(folder / "run/summary.json").at("status") == "interrupted");
  CHECK(fs::exists(folder / "run/checkpoints/latest"));
}

TEST_CASE("ranks end at the same batch", "[ranks]") {
  const std::string how =
      GENERATE(as<std::string>(), "--max_duration 3sec --eval_interval 0 --t_warmup 0.1dur",
               "--max_duration 100000ep --callbacks early_stopper --early_stopper.patience 1ep "
               "--early_stopper.min_delta 1");
  CAPTURE(how);
  const TemporaryFolder folder;
  RankProcesses ranks(folder.path(), 2, split(quick_training + how));
  check_all(ranks, 2, 0);
  const auto summary = json_of(folder / "run/summary.json");
  CHECK(summary.at("status") == "completed");
  CHECK(summary.at("world_size") == 2);
  CHECK(summary.at("samples") == summary.at("batches").get<int64_t>() * 16);
}

TEST_CASE("a loss that is not finite ends all ranks", "[ranks]") {
  const TemporaryFolder folder;
  RankProcesses ranks(
      folder.path(), 2,
      split(quick_training + "--max_duration 100ep --optimizer.decoupled_sgdw.lr 1e30"));
  check_all(ranks, 2, 1);
  for (const size_t rank : {0, 1}) CHECK_THAT(ranks.outcome(rank).errors, Contains("the loss is "));
}

TEST_CASE("two ranks evaluate to one JSON, and do not predict", "[ranks]") {
  const TemporaryFolder folder;
  const auto trained = Process(folder.path(), split(quick_training + "--max_duration 1ep")).wait();
  REQUIRE(trained.status == 0);
  const auto words = split("eval --load_path run/checkpoints/latest --json --eval_batch_size 7");
  const auto alone = Process(folder.path(), words).wait();
  REQUIRE(alone.status == 0);
  const auto one = nlohmann::json::parse(alone.output);
  for (const std::string spatial_ranks : {"1", "2"}) {
    auto divided = words;
    divided.insert(divided.end(), {"--spatial_ranks", spatial_ranks});
    RankProcesses ranks(folder.path(), 2, divided);
    check_all(ranks, 2, 0);
    CAPTURE(spatial_ranks);
    CHECK(ranks.outcome(1).output.empty());
    const auto two = nlohmann::json::parse(ranks.outcome(0).output);
    CHECK(two.at("confusion") == one.at("confusion"));
    CHECK(two.at("per_class") == one.at("per_class"));
    CHECK(two.at("metrics/eval/Accuracy") == one.at("metrics/eval/Accuracy"));
    CHECK(two.at("metrics/eval/CrossEntropy").get<double>() ==
          Approx(one.at("metrics/eval/CrossEntropy").get<double>()).epsilon(1e-5));
  }

  draw_photos(folder / "photos");
  RankProcesses predicting(folder.path(), 2,
                           split("predict --load_path run/checkpoints/latest --source photos"));
  check_all(predicting, 2, 2);
  CHECK_THAT(predicting.outcome(0).errors,
             Contains("predict: works in one process, not in 2 ranks"));
}

}  // namespace composer::failures_test
