// grad_accum: auto against runs that split their batches at the same steps.
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "composer/run/captured_steps.h"
#include "known.h"
#include "tests/composer/rerun.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"
#include "tests/out_of_memory.h"

namespace composer::grad_accum_auto_test {

using namespace composer::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// Convolution, batch norm and a linear layer, for images of 8 x 8.
class NormModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return fc_(average_(op::relu(norm_(conv_(input)))));
  }
  int64_t num_classes() const override { return 2; }

 private:
  Slot& conv_ = add<Conv2d>("conv", Conv2dOptions{3, 8, {3, 3}});
  Slot& norm_ = add<BatchNorm2d>("norm", 8);
  Slot& average_ = add<AdaptiveAvgPool2d>("average");
  Slot& fc_ = add<Linear>("fc", 8, 2);
};

/// 12 batches of 8 images, in 3 epochs.
TrainerParts norm_parts(const std::vector<std::string>& algorithms) {
  at::set_num_threads(1);
  auto parts = tiny_parts();
  parts.options.max_duration = {3, TimeUnit::epoch};
  parts.options.log_interval = {1, TimeUnit::batch};
  parts.model = std::make_shared<NormModel>();
  parts.console = false;
  for (const auto& name : algorithms) {
    const auto component = known().algorithms.make(name);
    parts.algorithms.push_back({name, component->build(), component->subscriptions()});
  }
  return parts;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a run leaves: all tensors of its last checkpoint, and what was logged of each batch.
struct Left {
  std::map<std::string, std::string> files;
  std::map<int64_t, double> losses, accuracies;

  explicit Left(const fs::path& run) {
    for (const auto& file : fs::directory_iterator(run / "checkpoints" / "ep3-ba12"))
      if (file.path().extension() == ".safetensors")
        files[file.path().filename()] = bytes_of(file.path());
    std::ifstream log(run / "metrics.jsonl");
    for (std::string line; std::getline(log, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("loss/train")) losses[record["batch"]] = record["loss/train"];
      if (record["event"] == "batch")
        accuracies[record["batch"]] = record["metrics/train/Accuracy"];
    }
  }
  bool operator==(const Left&) const = default;
};

/// At random steps and places: three halvings, the last two of one step.
std::vector<Shortage> at_random(uint64_t seed) {
  const char* const places[] = {"before_forward",  "after_forward", "before_loss",
                                "before_backward", "backward",      "after_backward"};
  Random random(seed, "shortages", 0, 0);
  std::vector<Shortage> shortages;
  for (const int64_t first : {0, 6})
    shortages.push_back({first + static_cast<int64_t>(random.below(6)), places[random.below(6)]});
  shortages[1].microbatch = 1;  // of two
  shortages.push_back({shortages[1].batch, places[random.below(6)], 1, 0, 2});
  return shortages;
}

const std::vector<std::string> acting{"dropout", "mixup", "random_erasing", "ema",
                                      "label_smoothing"};

}  // namespace

TEST_CASE("memory that runs out at random steps leaves the bytes of a run that splits there",
          "[grad_accum]") {
  const auto seed = static_cast<uint64_t>(GENERATE(1, 2, 3, 4, 5, 6));
  const auto shortages = at_random(seed);
  CAPTURE(seed, shortages[0].batch, shortages[0].place, shortages[1].batch, shortages[1].place,
          shortages[2].place);
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, bool automatic, int64_t stop_at) {
    auto parts = norm_parts(acting);
    parts.options.grad_clip_norm = 1;
    parts.options.run_dir = folder.path().string();
    parts.options.run_name = name;
    parts.options.autoresume = true;
    if (automatic) parts.options.grad_accum = Microbatches::by_memory();
    Trainer trainer(std::move(parts));
    if (automatic)
      trainer.add<OutOfMemoryAt>("out_of_memory", shortages);
    else
      trainer.add<SplitAt>("split", shortages);
    if (stop_at > 0) trainer.add<StopAt>("stop", stop_at);
    const auto summary = trainer.fit();
    if (stop_at == 0) CHECK(summary.grad_accum == 8);
    return summary;
  };
  run("split", false, 0);
  const Left split(folder.path() / "split");
  CHECK(split.losses.size() == 12);

  run("auto", true, 0);
  CHECK(Left(folder.path() / "auto") == split);

  const auto stop = static_cast<int64_t>(Random(seed, "stop", 0, 0).below(11)) + 1;
  CAPTURE(stop);
  run("killed", true, stop);
  run("killed", true, 0);
  CHECK(Left(folder.path() / "killed") == split);
}

TEST_CASE("what split batches was kept, logged and told", "[grad_accum]") {
  const TemporaryFolder folder;
  auto parts = norm_parts({});
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  parts.options.grad_accum = Microbatches::by_memory();
  Trainer trainer(std::move(parts));
  trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{2, "backward", 2}});
  trainer.fit();
  CHECK(trainer.state().grad_accum == 4);
  std::map<int64_t, double> logged;
  std::ifstream log(folder.path() / "run" / "metrics.jsonl");
  for (std::string line; std::getline(log, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.contains("grad_accum")) logged[record["batch"]] = record["grad_accum"];
  }
  CHECK(logged.size() == 12);
  CHECK(logged.at(2) == 1);
  CHECK(logged.at(3) == 4);
  CHECK(logged.at(12) == 4);
  std::ifstream summary(folder.path() / "run" / "summary.json");
  CHECK(nlohmann::json::parse(summary)["grad_accum"] == 4);
  std::ifstream manifest(folder.path() / "run" / "checkpoints" / "ep3-ba12" / "manifest.json");
  CHECK(nlohmann::json::parse(manifest)["grad_accum"] == 4);
}

TEST_CASE("where memory suffices, auto leaves the bytes of one microbatch", "[grad_accum]") {
  const auto trained = [](const Microbatches& microbatches) {
    auto parts = norm_parts({"dropout"});
    parts.options.grad_accum = microbatches;
    Trainer trainer(std::move(parts));
    trainer.fit();
    return weights_of(trainer);
  };
  CHECK(at::equal(trained(Microbatches::by_memory()), trained(1)));
}

TEST_CASE("one sample that is too much for memory ends the run", "[grad_accum]") {
  auto parts = norm_parts({});
  parts.options.grad_accum = Microbatches::by_memory();
  Trainer trainer(std::move(parts));
  trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{1, "after_forward", 99}});
  CHECK_THROWS_WITH(trainer.fit(),
                    Contains("grad_accum: auto: a microbatch of one sample needs more memory than "
                             "there is") &&
                        Contains("activation_checkpointing"));
}

namespace {

/// Has room for so many samples at once: with more, it fails within the forward pass, after draws
/// of LibTorch's generator.
class RoomFor : public NormModel {
 public:
  RoomFor(int64_t samples, std::string words) : samples_(samples), words_(std::move(words)) {}
  at::Tensor forward(const at::Tensor& input) override {
    if (!is_training()) return NormModel::forward(input);
    const auto outputs = NormModel::forward(input + at::randn_like(input));
    TORCH_CHECK(input.size(0) <= samples_, words_);
    return outputs;
  }

 private:
  int64_t samples_;
  std::string words_;
};

}  // namespace

TEST_CASE("a forward pass may run out of memory, in whichever words", "[grad_accum]") {
  const auto trained = [](int64_t room, const std::string& words) {
    auto parts = norm_parts({});
    parts.model = std::make_shared<RoomFor>(room, words);
    const bool automatic = room < 8;
    if (automatic) parts.options.grad_accum = Microbatches::by_memory();
    Trainer trainer(std::move(parts));
    if (!automatic) trainer.add<SplitAt>("split", std::vector<Shortage>{{0, "", 2}});
    trainer.fit();
    CHECK(trainer.state().grad_accum == 4);
    return weights_of(trainer);
  };
  const std::string words = GENERATE(
      "CUDA error: out of memory", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
      "err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes");
  CHECK(at::equal(trained(2, words), trained(8, "")));
  CHECK_THROWS_WITH(trained(2, "CUDA error: an illegal memory access"),
                    Contains("RoomFor at forward on a batch of shape [8, 3, 8, 8]"));
}

TEST_CASE("without auto a lack of memory ends the run", "[grad_accum]") {
  Trainer trainer(norm_parts({}));
  trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{1, "after_forward"}});
  CHECK_THROWS_WITH(trainer.fit(), Contains("out of memory"));
}

namespace {

/// A batch norm of one value a sample.
class NarrowModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return fc_(norm_(pool_(conv_(input)))); }
  int64_t num_classes() const override { return 2; }

 private:
  Slot& conv_ = add<Conv2d>("conv", Conv2dOptions{3, 4, {3, 3}});
  Slot& pool_ = add<AdaptiveAvgPool2d>("pool");
  Slot& norm_ = add<BatchNorm2d>("norm", 4);
  Slot& fc_ = add<Linear>("fc", 4, 2);
};

/// Leaves so many samples of a batch, and notes its microbatches.
class CutAt : public Algorithm {
 public:
  CutAt(int64_t batch, int64_t samples, std::vector<int64_t>& microbatches)
      : batch_(batch), samples_(samples), microbatches_(microbatches) {}
  void batch_start(State& state) override {
    if (state.time.batch == batch_)
      state.batch = {state.batch.input.slice(0, 0, samples_),
                     state.batch.target.slice(0, samples_)};
  }
  void before_forward(State& state) override {
    if (state.time.batch == batch_) microbatches_.push_back(state.batch.samples());
  }

 private:
  int64_t batch_, samples_;
  std::vector<int64_t>& microbatches_;
};

}  // namespace

TEST_CASE("a smaller batch is split no further than memory asks for", "[grad_accum]") {
  std::vector<int64_t> microbatches;
  const auto train = [&](int64_t samples) {
    auto parts = tiny_parts();
    parts.model = std::make_shared<NarrowModel>();
    parts.options.grad_accum = Microbatches::by_memory();
    Trainer trainer(std::move(parts));
    trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{1, "after_forward", 2}});
    trainer.add<CutAt>("cut", 3, samples, microbatches);
    trainer.fit();
    CHECK(trainer.state().grad_accum == 4);  // at most 2 samples each
  };
  train(4);
  CHECK(microbatches == std::vector<int64_t>{2, 2});
  CHECK_THROWS_WITH(train(3), Contains("grad_accum: auto: there is no memory for larger "
                                       "microbatches"));
  // One sample is not what memory made of it.
  CHECK_THROWS_WITH(train(1), Contains("norm: ") && !Contains("grad_accum: auto"));
}

TEST_CASE("microbatches that a batch norm refuses are no way out", "[grad_accum]") {
  auto parts = tiny_parts();
  parts.model = std::make_shared<NarrowModel>();
  parts.options.grad_accum = Microbatches::by_memory();
  Trainer trainer(std::move(parts));
  trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{1, "after_forward", 3}});
  CHECK_THROWS_WITH(trainer.fit(),
                    Contains("grad_accum: auto: there is no memory for larger microbatches") &&
                        Contains("norm: ") && Contains("one value a channel"));
}

TEST_CASE("recorded steps run out of memory and are recorded anew",
          "[grad_accum][captured_steps]") {
  // Three steps warm up, then one is recorded, and must be; what is replayed takes no memory.
  const int64_t batch = GENERATE(0, 2, 3);
  const std::string place = batch < 3 ? "backward" : GENERATE("backward", "after_train_batch");
  CAPTURE(batch, place);
  const std::vector<Shortage> shortages{{batch, place}};
  const auto trained = [&](bool automatic, std::shared_ptr<StepRecorder> recorder) {
    auto parts = norm_parts({});
    parts.step_recorder = std::move(recorder);
    parts.options.cuda_graph = automatic ? "true" : "false";
    if (automatic) parts.options.grad_accum = Microbatches::by_memory();
    Trainer trainer(std::move(parts));
    if (automatic)
      trainer.add<OutOfMemoryAt>("out_of_memory", shortages);
    else
      trainer.add<SplitAt>("split", shortages);
    trainer.fit();
    CHECK(trainer.state().grad_accum == 2);
    return weights_of(trainer);
  };
  Rerun::Counts counts;
  const auto repeated = trained(true, std::make_shared<Rerun>(counts));
  CHECK(at::equal(repeated, trained(false, nullptr)));
  CHECK(counts.recordings == (batch == 3 ? 2 : 1));
  CHECK(counts.freed == 1);
  CHECK(counts.replays > 0);
}

TEST_CASE("a step that there is no memory to record runs, and is not split",
          "[grad_accum][captured_steps]") {
  const std::string place = GENERATE("backward", "after_train_batch");
  CAPTURE(place);
  const auto one_epoch = [] {
    auto parts = tiny_parts();
    parts.options.max_duration = {1, TimeUnit::epoch};
    return parts;
  };
  Trainer plain(one_epoch());
  const auto accuracy = plain.fit().metrics.at("metrics/train/Accuracy");
  Rerun::Counts counts;
  auto parts = one_epoch();
  parts.options.grad_accum = Microbatches::by_memory();
  parts.step_recorder = std::make_shared<Rerun>(counts);
  Trainer trainer(std::move(parts));
  trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{3, place}});
  CHECK(trainer.fit().metrics.at("metrics/train/Accuracy") == accuracy);
  CHECK(trainer.state().grad_accum == 1);
  CHECK(counts == Rerun::Counts{CapturedSteps::warm_ups, 1, 0, 0});
  CHECK(at::equal(weights_of(trainer), weights_of(plain)));
}

namespace {

/// From batch 6 on there are two updates a batch. The first one fails twice beside recordings:
/// as it changes the weights, and then in its passes.
class FailsTwice : public Algorithm {
 public:
  explicit FailsTwice(bool fails) : fails_(fails) {}
  std::string prevents_graph_capture() const override { return {}; }
  void batch_start(State& state) override {
    if (state.time.batch < 6) return;
    state.updates = 2;
    if (!fails_) state.grad_accum = 4;
  }
  void before_forward(State& state) override {
    if (fails_ && state.time.batch == 6 && ++passes_ == 2) throw OutOfMemory("out of memory");
  }
  void after_train_batch(State&) override {
    if (fails_ && passes_ == 1) throw OutOfMemory("out of memory");
  }

 private:
  bool fails_;
  int passes_ = 0;
};

}  // namespace

TEST_CASE("a step that is done again without recordings may run out of memory once more",
          "[grad_accum][captured_steps]") {
  const auto trained = [](bool fails, std::shared_ptr<StepRecorder> recorder) {
    auto parts = norm_parts({});
    parts.step_recorder = std::move(recorder);
    if (fails) parts.options.grad_accum = Microbatches::by_memory();
    Trainer trainer(std::move(parts));
    trainer.add<FailsTwice>("fails_twice", fails);
    trainer.fit();
    CHECK(trainer.state().grad_accum == 4);
    return weights_of(trainer);
  };
  Rerun::Counts counts;
  CHECK(at::equal(trained(true, std::make_shared<Rerun>(counts)), trained(false, nullptr)));
  CHECK(counts.recordings == 2);
}

TEST_CASE("algorithms that send batches through the network themselves are refused",
          "[grad_accum]") {
  const auto refuse = [](const std::string& name) {
    auto parts = norm_parts({name});
    parts.options.grad_accum = Microbatches::by_memory();
    Trainer trainer(std::move(parts));
    CHECK_THROWS_WITH(trainer.fit(), Contains("grad_accum: auto: algorithms." + name + ": ") &&
                                         Contains("give a number"));
  };
  refuse("sam");
  refuse("selective_backprop");
  auto parts = norm_parts({"sync_batchnorm"});  // one rank
  parts.options.grad_accum = Microbatches::by_memory();
  CHECK_NOTHROW(Trainer(std::move(parts)).fit());
}

}  // namespace composer::grad_accum_auto_test
