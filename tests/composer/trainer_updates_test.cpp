// Several updates of the weights in a batch, and second passes over one.
#include <catch2/catch.hpp>
#include <limits>

#include "composer/run/trainer.h"
#include "tiny_run.h"

namespace composer::trainer_updates_test {

namespace {

using Tensors = std::vector<at::Tensor>;

class Divide : public Algorithm {
 public:
  explicit Divide(int64_t updates) : updates_(updates) {}
  void batch_start(State& state) override { state.updates = updates_; }

 private:
  int64_t updates_;
};

/// Notes each event with the first and the number of its samples: "before_forward 2 2".
class Places : public Algorithm {
 public:
  explicit Places(std::vector<std::string>& seen) : seen_(seen) {}
  void batch_start(State& state) override { note("batch_start ", state); }
  void before_train_batch(State& state) override { note("before_train_batch ", state); }
  void before_forward(State& state) override { note("before_forward ", state); }
  void after_backward(State& state) override { note("after_backward ", state); }
  void after_train_batch(State& state) override { note("after_train_batch ", state); }
  void batch_end(State& state) override { note("batch_end ", state); }

 private:
  void note(const std::string& event, const State& state) {
    seen_.push_back(event + std::to_string(state.first_sample) + " " +
                    std::to_string(state.batch.samples()));
  }
  std::vector<std::string>& seen_;
};

struct Losses : LogSink {
  void write(const Record& record) override {
    for (const auto& [name, value] : record.values)
      if (record.event == "batch" && name == "loss/train") values.push_back(value);
  }
  std::vector<double> values;
};

TrainerParts parts_of(int64_t batches, int64_t batch_size = 8) {
  auto parts = tiny_parts();
  parts.options.max_duration = {static_cast<double>(batches), TimeUnit::batch};
  parts.options.train_batch_size = batch_size;
  parts.options.log_interval = {1, TimeUnit::batch};
  parts.train_loader = std::make_shared<TinyLoader>(32, batch_size);
  parts.eval_loader = nullptr;
  return parts;
}

Tensors gradients(const State& state) {
  Tensors made;
  for (const auto& gradient : state.optimizer->gradients()) made.push_back(gradient.clone());
  return made;
}

bool equal(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return at::equal(x, y); });
}

/// Softens labels from before_loss to after_loss.
class Soften : public Algorithm {
 public:
  void before_loss(State& state) override { state.batch.target.smoothing = 0.5; }
  void after_loss(State& state) override { state.batch.target.smoothing = 0; }
};

/// Runs `action` in after_train_batch.
class Again : public Algorithm {
 public:
  explicit Again(std::function<void(State&)> action) : action_(std::move(action)) {}
  void after_train_batch(State& state) override { action_(state); }

 private:
  std::function<void(State&)> action_;
};

}  // namespace

TEST_CASE("each part of a batch has its update, its microbatches and its place", "[trainer]") {
  std::vector<std::string> seen;
  auto parts = parts_of(1);
  parts.options.grad_accum = 3;  // of the whole batch: no microbatch may get larger than 3
  Trainer trainer(std::move(parts));
  trainer.add<Divide>("divide", 2);
  trainer.add<Places>("places", seen);
  trainer.fit();
  CHECK(seen ==
        std::vector<std::string>{"batch_start 0 8", "before_train_batch 0 4", "before_forward 0 2",
                                 "after_backward 0 2", "before_forward 2 2", "after_backward 2 2",
                                 "after_train_batch 0 4", "before_train_batch 4 4",
                                 "before_forward 4 2", "after_backward 4 2", "before_forward 6 2",
                                 "after_backward 6 2", "after_train_batch 4 4", "batch_end 0 8"});
  CHECK(trainer.state().time.sample == 8);
}

TEST_CASE("a batch of two updates trains as two batches, and logs their mean loss", "[trainer]") {
  const auto run = [](TrainerParts parts, int64_t updates) {
    const auto losses = std::make_shared<Losses>();
    parts.loggers.push_back(losses);
    Trainer trainer(std::move(parts));
    trainer.add<Divide>("divide", updates);
    trainer.fit();
    return std::pair(weights_of(trainer), losses->values);
  };
  const auto [divided, means] = run(parts_of(4, 8), 2);
  const auto [plain, losses] = run(parts_of(8, 4), 1);
  CHECK(at::equal(divided, plain));
  REQUIRE(means.size() == 4);
  REQUIRE(losses.size() == 8);
  for (size_t i = 0; i < 4; ++i) CHECK(means[i] == Approx((losses[2 * i] + losses[2 * i + 1]) / 2));
}

TEST_CASE("recomputed gradients are those of the batch at the weights as they are", "[trainer]") {
  const std::string precision = GENERATE(std::string("fp32"), std::string("amp_fp16"));
  std::vector<std::string> seen;
  Tensors first, same, elsewhere;
  auto parts = parts_of(1);
  parts.options.grad_accum = 3;
  parts.options.grad_clip_norm = 0.01;
  parts.options.precision = precision;
  Trainer trainer(std::move(parts));
  trainer.add<Soften>("soften");
  trainer.add<Places>("places", seen);
  trainer.add<Again>("again", [&](State& state) {
    const auto outputs = state.outputs, loss = state.loss;
    const auto events = seen.size();
    first = gradients(state);
    state.recompute_gradients();
    same = gradients(state);
    CHECK(state.outputs.is_same(outputs));
    CHECK(state.loss.is_same(loss));
    CHECK(state.batch.samples() == 8);
    CHECK(state.first_sample == 0);
    CHECK(state.batch.target.smoothing == 0);
    CHECK(seen.size() == events);
    {
      const at::NoGradGuard no_grad;
      for (const auto& parameter : state.model->parameters()) parameter.mul_(2);
    }
    state.recompute_gradients();
    elsewhere = gradients(state);
  });
  trainer.fit();
  REQUIRE(first.size() == 4);
  CHECK(equal(same, first));
  CHECK_FALSE(equal(elsewhere, first));
  double squares = 0;
  for (const auto& gradient : elsewhere) squares += gradient.square().sum().item<double>();
  CHECK(std::sqrt(squares) == Approx(0.01).epsilon(1e-2));
}

TEST_CASE("each part of a batch recomputes its own gradients", "[trainer]") {
  int64_t parts_seen = 0;
  Trainer trainer(parts_of(1));
  trainer.add<Divide>("divide", 2);
  trainer.add<Again>("again", [&](State& state) {
    const auto first = gradients(state);
    state.recompute_gradients();
    CHECK(equal(gradients(state), first));
    CHECK(state.first_sample == 4 * parts_seen++);
  });
  trainer.fit();
  CHECK(parts_seen == 2);
}

TEST_CASE("a second pass that is not finite skips the step", "[trainer]") {
  auto parts = parts_of(1);
  parts.options.precision = "amp_fp16";
  Trainer trainer(std::move(parts));
  const auto before = weights_of(trainer);
  trainer.add<Again>("again", [](State& state) {
    const auto weights = state.model->parameters();
    Tensors kept;
    const at::NoGradGuard no_grad;
    for (const auto& weight : weights) kept.push_back(weight.clone());
    for (const auto& weight : weights) weight.fill_(std::numeric_limits<float>::infinity());
    state.recompute_gradients();
    for (size_t i = 0; i < kept.size(); ++i) weights[i].copy_(kept[i]);
  });
  trainer.fit();
  CHECK(at::equal(weights_of(trainer), before));
}

}  // namespace composer::trainer_updates_test
