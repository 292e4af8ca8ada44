// Replayed steps, on a recorder that runs them again.
#include "composer/run/captured_steps.h"

#include <catch2/catch.hpp>
#include <limits>
#include <utility>

#include "base/error.h"
#include "composer/run/trainer.h"
#include "nn/device/cuda_library.h"
#include "rerun.h"
#include "tests/gpu.h"
#include "tiny_run.h"

namespace composer::captured_steps_test {

using test::Rerun;
using Counts = Rerun::Counts;

namespace {

struct Refuses : Rerun {
  using Rerun::Rerun;
  std::unique_ptr<Recording> record(const std::function<void()>&) override {
    throw RunError("operation not permitted when stream is capturing\nsecond line");
  }
};

struct Replayable : Algorithm {
  std::string prevents_graph_capture() const override { return {}; }
};

/// So many updates in each batch.
struct Divide : Replayable {
  explicit Divide(std::function<int64_t(int64_t)> updates) : updates(std::move(updates)) {}
  void batch_start(State& state) override { state.updates = updates(state.time.batch); }
  std::function<int64_t(int64_t)> updates;
};

struct FreezeAt : Replayable {
  explicit FreezeAt(int64_t batch) : batch(batch) {}
  void batch_start(State& state) override {
    if (state.time.batch != batch) return;
    auto weight = state.model->named_parameters()["conv.weight"];
    weight.requires_grad_(false);
    weight.mutable_grad().reset();
  }
  int64_t batch;
};

struct Silent : Algorithm {};

struct Watcher : Callback {
  void after_loss(const State&, Logger&, RunControl&) override {}
};

struct Outcome {
  at::Tensor weights;
  double accuracy = 0;  ///< in the last epoch's training
  Counts counts;
};

TrainerParts parts_of(int64_t batches) {
  auto parts = tiny_parts();
  parts.options.max_duration = {static_cast<double>(batches), TimeUnit::batch};
  parts.eval_loader = nullptr;
  return parts;
}

/// 12 batches; without a recorder where `word` is empty.
template <class Recorder = Rerun, class Prepare>
Outcome trained(const std::string& word, Prepare prepare, int64_t batches = 12) {
  Outcome outcome;
  auto parts = parts_of(batches);
  if (!word.empty()) {
    parts.options.cuda_graph = word;
    parts.step_recorder = std::make_shared<Recorder>(outcome.counts);
  }
  Trainer trainer(std::move(parts));
  prepare(trainer);
  outcome.accuracy = trainer.fit().metrics.at("metrics/train/Accuracy");
  outcome.weights = weights_of(trainer);
  return outcome;
}

constexpr auto nothing = [](Trainer&) {};
constexpr int warm_ups = CapturedSteps::warm_ups;

}  // namespace

TEST_CASE("replayed steps train as steps that run, after some of these", "[captured_steps]") {
  const auto plain = trained("", nothing), replayed = trained("auto", nothing);
  CHECK(at::equal(plain.weights, replayed.weights));
  CHECK(replayed.counts == Counts{warm_ups, 1, 12 - warm_ups});
  CHECK(trained("false", nothing).counts == Counts{});
}

TEST_CASE("each shape of a batch is recorded by itself", "[captured_steps]") {
  const auto prepare = [](Trainer& trainer) {
    trainer.add<Divide>("divide", [](int64_t batch) { return batch % 2 + 1; });
  };
  const auto plain = trained("", prepare), replayed = trained("auto", prepare);
  CHECK(at::equal(plain.weights, replayed.weights));
  // 6 batches in one part, 6 in two.
  CHECK(replayed.counts == Counts{2 * warm_ups, 2, 18 - 2 * warm_ups});
}

TEST_CASE("what changes the parameters drops what was recorded", "[captured_steps]") {
  const auto prepare = [](Trainer& trainer) { trainer.add<FreezeAt>("freeze", 6); };
  const auto plain = trained("", prepare), replayed = trained("auto", prepare);
  CHECK(at::equal(plain.weights, replayed.weights));
  CHECK(replayed.counts == Counts{2 * warm_ups, 2, 12 - 2 * warm_ups});
}

TEST_CASE("gradients and outputs are there after a replayed step", "[captured_steps]") {
  struct Look : Callback {
    void batch_end(const State& state, Logger&, RunControl&) override {
      if (state.time.batch != 9) return;
      CHECK(state.optimizer->gradients().size() == state.optimizer->parameters().size());
      CHECK(state.outputs.size(0) == 8);
      CHECK_FALSE(state.outputs.requires_grad());
      CHECK(state.loss.dim() == 0);
      CHECK(state.batch.samples() == 8);
      ++looks;
    }
    int looks = 0;
  };
  Counts counts;
  auto parts = parts_of(9);
  parts.step_recorder = std::make_shared<Rerun>(counts);
  const auto look = std::make_shared<Look>();
  parts.callbacks.push_back({"look", look, subscriptions<Look>()});
  Trainer(std::move(parts)).fit();
  CHECK(look->looks == 1);
}

TEST_CASE("algorithms that do not allow it, and callbacks that watch a step, prevent replays",
          "[captured_steps]") {
  const auto silent = [](Trainer& trainer) { trainer.add<Silent>("silent"); };
  const auto watched = [](Trainer& trainer) { trainer.add<Watcher>("watcher"); };
  CHECK(trained("auto", silent).counts == Counts{});
  CHECK(trained("auto", watched).counts == Counts{});
  CHECK_THROWS_WITH(trained("true", silent),
                    "cuda_graph: true: steps cannot be replayed: silent: does not say that its "
                    "steps may be replayed (Algorithm::prevents_graph_capture)");
  CHECK_THROWS_WITH(trained("true", watched),
                    "cuda_graph: true: steps cannot be replayed: watcher: watches after_loss of "
                    "every step");
}

TEST_CASE("where a step cannot be recorded, auto goes on without and true fails",
          "[captured_steps]") {
  const auto plain = trained("", nothing), without = trained<Refuses>("auto", nothing);
  CHECK(at::equal(plain.weights, without.weights));
  CHECK(without.counts == Counts{warm_ups, 0, 0});
  CHECK_THROWS_WITH(trained<Refuses>("true", nothing),
                    "cuda_graph: true: the step cannot be recorded: operation not permitted when "
                    "stream is capturing");
}

namespace {

/// Fails before the second backward pass of the step that is recorded, and looks at what the next
/// forward pass finds.
struct FailOnce : Replayable {
  explicit FailOnce(const Counts& counts, int& looks) : counts(counts), looks(looks) {}
  void before_forward(State& state) override {
    if (counts.recordings == 1 && failed && looks++ == 0) {
      CHECK_FALSE(state.outputs.defined());
      CHECK_FALSE(state.loss.defined());
      CHECK(state.first_sample == 0);
      CHECK(state.optimizer->gradients().empty());
    }
  }
  void before_backward(State& state) override {
    if (counts.recordings != 1 || state.first_sample == 0 || std::exchange(failed, true)) return;
    CHECK_FALSE(state.optimizer->gradients().empty());
    throw RunError("out of memory");
  }
  const Counts& counts;
  int& looks;
  bool failed = false;
};

}  // namespace

TEST_CASE("nothing is left of a step that could not be recorded", "[captured_steps]") {
  const auto prepared = [](TrainerParts parts) {
    parts.options.grad_accum = 2;
    return parts;
  };
  Trainer plain(prepared(parts_of(6)));
  plain.fit();
  Counts counts;
  int looks = 0;
  auto parts = prepared(parts_of(6));
  parts.step_recorder = std::make_shared<Rerun>(counts);
  Trainer trainer(std::move(parts));
  trainer.add<FailOnce>("fail_once", counts, looks);
  trainer.fit();
  CHECK(looks > 0);
  CHECK(counts == Counts{warm_ups, 1, 0});
  CHECK(at::equal(weights_of(plain), weights_of(trainer)));
}

namespace {

/// Wrong labels, other numbers of them in each batch of an epoch.
struct Mislabel : Replayable {
  void batch_start(State& state) override {
    const auto wrong = state.batch.target.classes.slice(0, 0, state.time.batch % 4);
    wrong.copy_(1 - wrong);
  }
};

/// Out of memory in the first step beside a recording, after its forward or its backward pass.
struct NoRoom : Replayable {
  NoRoom(const Counts& counts, Event where) : counts(counts), where(where) {}
  void before_backward(State& state) override { fail(state, Event::before_backward); }
  void after_train_batch(State& state) override { fail(state, Event::after_train_batch); }
  void fail(const State& state, Event event) {
    if (event != where || state.updates == 1 || std::exchange(failed, true)) return;
    CHECK(counts.recordings == 1);
    TORCH_CHECK(false, "CUDA error: out of memory");
  }
  const Counts& counts;
  Event where;
  bool failed = false;
};

}  // namespace

TEST_CASE("where a step has no room beside recordings, these go and it is done again",
          "[captured_steps]") {
  const auto where = GENERATE(Event::before_backward, Event::after_train_batch);
  const auto divide = [](Trainer& trainer) {
    trainer.add<Divide>("divide", [](int64_t batch) { return batch < 9 ? 1 : 2; });
    trainer.add<Mislabel>("mislabel");
  };
  Counts counts;
  auto parts = parts_of(12);
  parts.step_recorder = std::make_shared<Rerun>(counts);
  Trainer trainer(std::move(parts));
  divide(trainer);
  trainer.add<NoRoom>("no_room", counts, where);
  const auto summary = trainer.fit();
  const auto plain = trained("", divide);
  CHECK(at::equal(plain.weights, weights_of(trainer)));
  CHECK(plain.accuracy == summary.metrics.at("metrics/train/Accuracy"));
  // 9 batches in one part, 3 in two, the first of which fails once.
  CHECK(counts == Counts{2 * warm_ups + 1, 2, 15 - 2 * warm_ups, 1});
}

namespace {

/// Gradients that are not finite, in so many batches from the first.
struct Overflow : Replayable {
  explicit Overflow(int64_t batches) : batches(batches) {}
  void after_backward(State& state) override {
    if (state.time.batch < batches)
      for (auto& gradient : state.optimizer->gradients())
        gradient.fill_(std::numeric_limits<float>::infinity());
  }
  int64_t batches;
};

}  // namespace

TEST_CASE("a first update that waits for the gradients' check is not recorded",
          "[captured_steps]") {
  const auto weights = [](std::shared_ptr<StepRecorder> recorder) {
    auto parts = parts_of(12);
    parts.options.precision = "amp_fp16";
    SgdParams sgd;
    sgd.lr = 0.01;
    sgd.momentum = 0.9;
    sgd.dampening = 0.5;
    parts.optimizer = std::make_shared<Sgd>(sgd);
    parts.step_recorder = std::move(recorder);
    Trainer trainer(std::move(parts));
    trainer.add<Overflow>("overflow", warm_ups + 2);
    trainer.fit();
    return weights_of(trainer);
  };
  Counts counts;
  const auto replayed = weights(std::make_shared<Rerun>(counts));
  CHECK(counts == Counts{warm_ups + 3, 1, 12 - warm_ups - 3});
  CHECK(at::equal(weights(nullptr), replayed));
}

namespace {

using Refuse = void(bool);

/// While it lives, whatever waits for the GPU throws.
class NoWaits {
 public:
  explicit NoWaits(Refuse* refuse) : refuse_(refuse) { refuse_(true); }
  ~NoWaits() { refuse_(false); }

 private:
  Refuse* refuse_;
};

/// From the end of batch 5 to that of batch 10.
struct RefuseWaits : Replayable {
  explicit RefuseWaits(Refuse* refuse) : refuse(refuse) {}
  void batch_end(State& state) override {
    if (state.time.batch == 5) refused.emplace(refuse);
    if (state.time.batch == 10) refused.reset();
  }
  Refuse* refuse;
  std::optional<NoWaits> refused;
};

}  // namespace

TEST_CASE("steps on a GPU wait for nothing, replayed or not", "[captured_steps][gpu]") {
  if (!test::has_gpu()) return;
  Refuse* refuse = nullptr;
  try {
    refuse = reinterpret_cast<Refuse*>(
        function_of_cuda_library("composer_refuse_waits", "this test needs"));
  } catch (const UserError& error) {
    WARN("skipped on CUDA: " << error.what());
    return;
  }
  for (const std::string word : {"false", "true"}) {
    auto parts = parts_of(12);
    parts.options.device = "gpu";
    parts.options.cuda_graph = word;
    parts.options.log_interval = {100, TimeUnit::batch};
    Trainer trainer(std::move(parts));
    trainer.add<RefuseWaits>("refuse_waits", refuse);
    CHECK_NOTHROW(trainer.fit());
  }
}

}  // namespace composer::captured_steps_test
