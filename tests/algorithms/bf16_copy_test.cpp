// Training in bf16 with the rounded copies that layers keep of their weights, against a network
// that rounds them in each forward pass: whatever writes the weights, both take the same steps.
#include <catch2/catch.hpp>
#include <functional>

#include "algorithms/channels_last.h"
#include "algorithms/ema.h"
#include "algorithms/lookahead.h"
#include "algorithms/sam.h"
#include "algorithms/swa.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "nn/network/fused_norm.h"
#include "nn/optimization/muon.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"

namespace composer::bf16_copy_test {

namespace {

/// TinyModel's parameters, which its layers do not compute with.
class PlainModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    const auto weights = named_parameters();
    const auto features = at::conv2d(input, weights["conv.weight"], weights["conv.bias"]).relu();
    const auto pooled = pool_(features);
    return at::linear(pooled, weights["fc.weight"], weights["fc.bias"]);
  }
  int64_t num_classes() const override { return 2; }

 private:
  Slot& conv_ = add<Conv2d>("conv", Conv2dOptions{3, 4, {3, 3}});
  Slot& pool_ = add<AdaptiveAvgPool2d>("pool");
  Slot& fc_ = add<Linear>("fc", 4, 2);
};

/// The metrics of every evaluation.
struct Evaluations : Callback {
  void eval_end(const State& state, Logger&, RunControl&) override {
    all.push_back(state.eval_metrics);
  }
  std::vector<std::map<std::string, double>> all;
};

struct Outcome {
  Checkpoint checkpoint;
  std::vector<std::map<std::string, double>> evaluations;
};

using Add = std::function<void(Trainer&)>;

/// Gradients of weights are rounded, as the plain network's are; the optimizer's pass stays.
struct RoundedGradients : Algorithm {
  void before_train_batch(State&) override { unfused_.emplace(); }
  void after_train_batch(State&) override { unfused_.reset(); }
  Order order(Event) const override { return Order::last; }  // behind sam's second pass
  std::optional<Unfused> unfused_;
};

TrainerParts parts_of(const std::string& run_dir, bool plain) {
  auto parts = tiny_parts();
  if (plain) {
    at::manual_seed(3);
    parts.model = std::make_shared<PlainModel>();
  }
  parts.options.precision = "amp_bf16";
  parts.options.max_duration = {8, TimeUnit::batch};
  parts.options.eval_interval = {3, TimeUnit::batch};
  parts.options.grad_accum = 2;
  parts.options.run_dir = run_dir;
  parts.options.run_name = plain ? "plain" : "run";
  parts.options.autoresume = true;
  return parts;
}

/// Trains, and is interrupted after batch 5 with a `stop`.
Outcome train(
    bool plain, const Add& add, bool stop, const Add& before = [](Trainer&) {}) {
  const TemporaryFolder folder;
  const auto evaluations = std::make_shared<Evaluations>();
  for (const int64_t batch : stop ? std::vector<int64_t>{5, -1} : std::vector<int64_t>{-1}) {
    auto parts = parts_of(folder.path(), plain);
    parts.callbacks.push_back({"evaluations", evaluations, subscriptions<Evaluations>()});
    Trainer trainer(std::move(parts));
    add(trainer);
    trainer.add<RoundedGradients>("rounded_gradients");
    trainer.add<StopAt>("stop", batch);
    before(trainer);
    trainer.fit();
  }
  return {load_checkpoint(
              *newest_checkpoint(folder / (plain ? "plain/checkpoints" : "run/checkpoints"))),
          evaluations->all};
}

void check_same(const Add& add) {
  const bool stop = GENERATE(false, true);
  const auto ours = train(false, add, stop), plain = train(true, add, stop);
  check_equal(ours.checkpoint.model, plain.checkpoint.model);
  check_equal(ours.checkpoint.optimizer.tensors, plain.checkpoint.optimizer.tensors);
  CHECK(ours.evaluations == plain.evaluations);
  CHECK(ours.evaluations.size() >= 2);
}

constexpr Time batches(double count) { return {count, TimeUnit::batch}; }

}  // namespace

TEST_CASE("rounded weights follow the optimizer, and a checkpoint", "[bf16_copy]") {
  check_same([](Trainer&) {});
}

TEST_CASE("rounded weights follow the layout of weights", "[bf16_copy][channels_last]") {
  check_same([](Trainer& trainer) { trainer.add<ChannelsLast>("channels_last"); });
}

TEST_CASE("rounded weights follow sam's climb and its return", "[bf16_copy][sam]") {
  check_same(
      [](Trainer& trainer) { trainer.add<Sam>("sam", Sam::Params{.rho = 0.5, .interval = 2}); });
}

TEST_CASE("rounded weights follow the exchange with ema's average", "[bf16_copy][ema]") {
  check_same(
      [](Trainer& trainer) { trainer.add<Ema>("ema", Ema::Params{.half_life = batches(2)}); });
}

TEST_CASE("rounded weights follow lookahead", "[bf16_copy][lookahead]") {
  check_same([](Trainer& trainer) {
    trainer.add<Lookahead>("lookahead", Lookahead::Params{.interval = batches(2)});
  });
}

TEST_CASE("rounded weights follow swa's average", "[bf16_copy][swa]") {
  check_same([](Trainer& trainer) {
    trainer.add<Swa>(
        "swa",
        Swa::Params{.swa_start = batches(2), .swa_end = batches(6), .update_interval = batches(1)});
  });
}

TEST_CASE("rounded weights follow what a file holds", "[bf16_copy]") {
  const TemporaryFolder folder;
  TinyModel other;
  const auto file = folder / "other.safetensors";
  write_safetensors(file, model_tensors(other));
  // After a forward pass: the copies are there.
  const auto load = [&](Trainer& trainer) {
    trainer.prepare();
    auto& model = *trainer.state().model;
    trainer.state().network().forward(at::ones({1, 3, 8, 8}));
    load_weights(model, file);
  };
  const auto ours = train(
      false, [](Trainer&) {}, false, load);
  const auto plain = train(
      true, [](Trainer&) {}, false, load);
  check_equal(ours.checkpoint.model, plain.checkpoint.model);
}

}  // namespace composer::bf16_copy_test
