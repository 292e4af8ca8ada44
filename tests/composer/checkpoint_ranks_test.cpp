// Checkpoints that several ranks write together.
#include <catch2/catch.hpp>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/checkpoint_writer.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"
#include "tests/ranks.h"

namespace composer::checkpoint_ranks_test {

using Catch::Contains;
using test::in_ranks;
namespace fs = std::filesystem;

namespace {

/// A network of so many layers of one size, and momentum.
Checkpoint example(int64_t layers) {
  Checkpoint checkpoint;
  checkpoint.time.batch = 5;
  for (int64_t i = 0; i < layers; ++i) {
    const auto name = "layer" + std::to_string(i);
    checkpoint.model[name] = at::full({100}, i, at::kFloat);
    checkpoint.optimizer.tensors["momentum_buffer." + name] = at::full({100}, -i, at::kFloat);
  }
  checkpoint.parts["algorithms.ema"].tensors = {{"count", at::ones({1})}};
  return checkpoint;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What came of the checkpoint on each rank.
std::vector<SaveOutcome> save_in_ranks(int64_t ranks, const fs::path& folder,
                                       const std::vector<Checkpoint>& checkpoints, bool behind) {
  std::vector<SaveOutcome> outcomes(static_cast<size_t>(ranks));
  in_ranks(ranks, [&](const Ranks& group) {
    const auto rank = static_cast<size_t>(group.rank());
    CheckpointWriter writer(folder, group, {.behind = behind});
    writer.start(checkpoints[std::min(rank, checkpoints.size() - 1)], {.best = true});
    outcomes[rank] = *writer.wait();
  });
  return outcomes;
}

/// Each rank's share of the batches of TinyLoader.
class ShareLoader : public TinyLoader {
 public:
  ShareLoader(int64_t rank, int64_t ranks) : TinyLoader(32, 8), rank_(rank), ranks_(ranks) {}
  std::optional<RawBatch> next() override {
    auto batch = TinyLoader::next();
    if (!batch) return batch;
    const int64_t samples = batch->samples();
    const int64_t begin = samples * rank_ / ranks_, end = samples * (rank_ + 1) / ranks_;
    batch->images = batch->images.slice(0, begin, end);
    batch->target.classes = batch->target.classes.slice(0, begin, end);
    return batch;
  }

 private:
  int64_t rank_, ranks_;
};

class Double : public Algorithm {
 public:
  std::string prevents_sharding() const override { return {}; }
  void after_dataloader(State& state) override {
    state.batch.input = state.batch.input.to(at::kDouble);
  }
};

struct RunOfRanks {
  fs::path folder;
  std::string name = "run";
  int64_t ranks = 1;
  int64_t stop_at = 0;  ///< batch; 0: at the end of three epochs of four
  bool in_double = false;
  std::string precision = "fp32";
  std::string parallelism = "ddp";
};

/// Goes on from what is there; returns the first rank's weights.
at::Tensor train(const RunOfRanks& run) {
  std::vector<TrainerParts> parts;
  for (int64_t rank = 0; rank < run.ranks; ++rank) {
    auto& mine = parts.emplace_back(tiny_parts());
    mine.train_loader = std::make_shared<ShareLoader>(rank, run.ranks);
    mine.eval_loader = nullptr;
    mine.options.max_duration = {3, TimeUnit::epoch};
    mine.options.run_dir = run.folder.string();
    mine.options.run_name = run.name;
    mine.options.autoresume = true;
    mine.options.precision = run.precision;
    mine.options.parallelism = run.parallelism;
    if (run.in_double) mine.model->to(at::kDouble);
  }
  at::Tensor weights;
  in_ranks(run.ranks, [&](const Ranks& ranks) {
    auto mine = std::move(parts[static_cast<size_t>(ranks.rank())]);
    mine.ranks = ranks;
    Trainer trainer(std::move(mine));
    if (run.in_double) trainer.add<Double>("double");
    trainer.add<StopAt>("stop", run.stop_at);
    trainer.fit();
    if (ranks.first()) weights = weights_of(trainer);
  });
  return weights;
}

}  // namespace

TEST_CASE("the optimizer's tensors are spread over files of similar size", "[checkpoint][ranks]") {
  const auto checkpoint = example(9);
  for (const int64_t ranks : {1, 2, 3, 4, 20}) {
    CAPTURE(ranks);
    size_t tensors = 0, most = 0;
    int64_t writers = 0;
    for (const auto& file : tensor_files(checkpoint, ranks)) {
      CHECK(file.rank < ranks);
      if (!file.name.starts_with("optimizer-")) continue;
      tensors += file.tensors.size();
      most = std::max(most, file.tensors.size());
      ++writers;
    }
    CHECK(tensors == 9);
    CHECK(writers == std::clamp<int64_t>(ranks - 1, 1, 9));
    CHECK(most == static_cast<size_t>((9 + writers - 1) / writers));
  }
  CHECK(tensor_files(Checkpoint(), 3).size() == 3);
}

TEST_CASE("ranks write a checkpoint together, each its files", "[checkpoint][ranks]") {
  const bool behind = GENERATE(true, false);
  const TemporaryFolder folder, again;
  const auto saved = example(9);
  for (const auto& outcome : save_in_ranks(4, folder.path(), {saved}, behind)) {
    CHECK(outcome.name == "ep0-ba5");
    CHECK(outcome.problem.empty());
  }
  CHECK(names_in(folder.path()) == std::set<std::string>{"best", "ep0-ba5", "latest"});
  const auto path = folder / "ep0-ba5";
  CHECK(names_in(path) == std::set<std::string>{"manifest.json", "model-00001-of-00001.safetensors",
                                                "optimizer-00001-of-00003.safetensors",
                                                "optimizer-00002-of-00003.safetensors",
                                                "optimizer-00003-of-00003.safetensors",
                                                "state-00001-of-00001.safetensors"});
  const auto loaded = load_checkpoint(path);
  check_equal(loaded.model, saved.model);
  check_equal(loaded.optimizer.tensors, saved.optimizer.tensors);
  CHECK(loaded.parts.at("algorithms.ema").tensors.contains("count"));
  CHECK_THAT(describe_checkpoint(path), Contains("optimizer-00003-of-00003.safetensors:"));
  CHECK(newest_checkpoint(folder.path()) == path);

  save_in_ranks(4, again.path(), {saved}, behind);
  for (const auto& name : names_in(path))
    CHECK(bytes_of(path / name) == bytes_of(again / "ep0-ba5" / name));
}

TEST_CASE("a rank that cannot write its file is told of by all, and nothing is left",
          "[checkpoint][ranks]") {
  const bool behind = GENERATE(true, false);
  const TemporaryFolder folder;
  auto before = example(9);
  before.time.batch = 4;
  save_in_ranks(3, folder.path(), {before}, behind);
  std::vector<Checkpoint> checkpoints(3, example(9));
  for (auto& [name, tensor] : checkpoints[2].optimizer.tensors)
    tensor = at::zeros({50}, at::kComplexFloat);  // which the format has not
  for (const auto& outcome : save_in_ranks(3, folder.path(), checkpoints, behind)) {
    CHECK(outcome.rank == 2);
    CHECK_THAT(outcome.problem, Contains("safetensors cannot hold"));
  }
  CHECK(names_in(folder.path()) == std::set<std::string>{"best", "ep0-ba4", "latest"});
  CHECK(load_checkpoint(folder / "latest").time.batch == 4);
}

TEST_CASE("one rank's failed checkpoint ends all ranks with its message, or is reported",
          "[checkpoint][ranks][trainer]") {
  const bool ends = GENERATE(true, false);
  const TemporaryFolder folder, elsewhere;
  std::mutex mutex;
  std::set<std::string> errors;
  const auto fit = [&] {
    std::vector<TrainerParts> parts;
    for (int64_t rank = 0; rank < 2; ++rank) {
      auto& mine = parts.emplace_back(tiny_parts());
      mine.train_loader = std::make_shared<ShareLoader>(rank, 2);
      mine.eval_loader = nullptr;
      mine.options.run_dir = (rank == 0 ? folder : elsewhere).path().string();
      mine.options.run_name = "run";
      mine.options.on_save_error = ends ? "error" : "warn";
    }
    in_ranks(2, [&](const Ranks& ranks) {
      auto mine = std::move(parts[static_cast<size_t>(ranks.rank())]);
      mine.ranks = ranks;
      try {
        Trainer(std::move(mine)).fit();
      } catch (const LostRankError& error) {
        const std::lock_guard lock(mutex);
        errors.insert(error.what());
        throw;
      }
    });
  };
  if (ends) {
    CHECK_THROWS_WITH(fit(), Contains((elsewhere / "run").string()) &&
                                 Contains("cannot be written: No such file"));
    REQUIRE(errors.size() == 1);
    CHECK_THAT(*errors.begin(), Contains("rank 1: "));
  } else {
    fit();
  }
  CHECK(names_in(folder / "run/checkpoints").empty());
  CHECK(bytes_of(folder / "run/summary.json").find(ends ? "failed" : "completed") !=
        std::string::npos);
}

TEST_CASE("a checkpoint that one rank cannot read ends all", "[checkpoint][ranks][trainer]") {
  const TemporaryFolder folder;
  train({.folder = folder.path(), .stop_at = 2});
  CHECK_THROWS_WITH(in_ranks(2,
                             [&](const Ranks& ranks) {
                               auto mine = tiny_parts();
                               const auto name = ranks.first() ? "ep0-ba2" : "ep0-ba3";
                               mine.options.load_path = folder / "run/checkpoints" / name;
                               mine.ranks = ranks;
                               Trainer(std::move(mine)).prepare();
                             }),
                    Contains("ep0-ba3 does not exist"));
}

TEST_CASE("saved by four ranks in mid-epoch, a run goes on with fewer", "[checkpoint][ranks]") {
  const std::string saved_as = GENERATE("ddp", "zero1", "fsdp");
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t ranks, int64_t stop_at = 0,
                       const std::string& parallelism = "ddp") {
    return train({folder.path(), name, ranks, stop_at, /*in_double=*/true, "fp32", parallelism});
  };
  const auto whole = run("whole", 1);
  run("stopped", 4, 6, saved_as);
  const auto checkpoints = folder / "stopped/checkpoints";
  CHECK(fs::read_symlink(checkpoints / "latest") == "ep1-ba6");
  const auto* const third = saved_as == "ddp" ? "ep1-ba6/optimizer-00003-of-00003.safetensors"
                                              : "ep1-ba6/optimizer-00003-of-00004.safetensors";
  CHECK(fs::exists(checkpoints / third));
  const std::map<int64_t, std::string> going_on{{1, "ddp"}, {2, "ddp"}, {3, "zero1"}, {4, "fsdp"}};
  for (const auto& [ranks, parallelism] : going_on) {
    CAPTURE(ranks);
    const auto name = "resumed" + std::to_string(ranks);
    fs::copy(folder / "stopped", folder / name,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto weights = run(name, ranks, 0, parallelism);
    CHECK(((weights - whole).norm() / whole.norm()).item<double>() < 1e-9);
    CHECK(load_checkpoint(folder / name / "checkpoints/latest").time.sample == 96);
  }
}

TEST_CASE("resumed by as many ranks, a run ends with the same bytes", "[checkpoint][ranks]") {
  const std::string precision = GENERATE("fp32", "amp_bf16");
  const std::string parallelism = GENERATE("ddp", "zero1", "fsdp");
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t stop_at) {
    train({folder.path(), name, 3, stop_at, false, precision, parallelism});
  };
  run("whole", 0);
  run("stopped", 6);
  run("stopped", 0);
  const auto whole = folder / "whole/checkpoints/ep3-ba12";
  for (const auto& name : names_in(whole))
    if (name != "manifest.json")
      CHECK(bytes_of(folder / "stopped/checkpoints/ep3-ba12" / name) == bytes_of(whole / name));
}

}  // namespace composer::checkpoint_ranks_test
