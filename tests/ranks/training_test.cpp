// Several ranks train what one rank trains.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "algorithms/blurpool.h"
#include "algorithms/channels_last.h"
#include "algorithms/ema.h"
#include "algorithms/gradient_clipping.h"
#include "algorithms/label_smoothing.h"
#include "algorithms/progressive_resizing.h"
#include "algorithms/randaugment.h"
#include "algorithms/sam.h"
#include "base/error.h"
#include "models/resnet.h"
#include "nn/optimization/schedulers.h"
#include "tests/ranks/double_run.h"

namespace composer::training_test {

using namespace composer::test;

namespace {

/// What the mission's fastest runs are made of, as far as float64 has it.
void add_the_six(Trainer& trainer) {
  trainer.add<ChannelsLast>("channels_last");
  trainer.add<BlurPool>("blurpool", BlurPool::Params{});
  trainer.add<LabelSmoothing>("label_smoothing", LabelSmoothing::Params{});
  trainer.add<ProgressiveResizing>("progressive_resizing", ProgressiveResizing::Params{});
}

void add_stepwise_decay(TrainerParts& parts) {
  MultiStep decay;
  decay.milestones = {{20, TimeUnit::batch}, {2, TimeUnit::epoch}};
  parts.schedulers.push_back(std::make_shared<ScheduledBy<MultiStep>>(decay));
}

Setup setup_of(const std::string& name) {
  Setup setup;
  setup.add = [](Trainer&) {};
  if (name == "grad_accum")
    setup.change = [](TrainerParts& parts) { parts.options.grad_accum = 3; };
  if (name == "grad_clip_norm")
    setup.change = [](TrainerParts& parts) { parts.options.grad_clip_norm = 0.05; };
  if (name == "the six") setup.change = add_stepwise_decay, setup.add = add_the_six;
  if (name == "ema")
    setup.add = [](Trainer& trainer) {
      Ema::Params params;
      params.half_life = {5, TimeUnit::batch};
      trainer.add<Ema>("ema", params);
    };
  if (name.starts_with("randaugment"))
    setup.add = [name](Trainer& trainer) {
      RandAugment::Params params;
      params.where = name == "randaugment" ? "device" : "loader";
      trainer.add<RandAugment>("randaugment", params);
    };
  if (name == "gradient_clipping" || name == "adaptive clipping")
    setup.add = [name](Trainer& trainer) {
      const bool adaptive = name == "adaptive clipping";
      trainer.add<GradientClipping>(
          "gradient_clipping",
          GradientClipping::Params{adaptive ? "adaptive" : "norm", adaptive ? 0.01 : 0.05});
    };
  if (name == "sam")
    setup.add = [](Trainer& trainer) { trainer.add<Sam>("sam", Sam::Params{.rho = 0.1}); };
  const auto add = setup.add;
  setup.add = [add](Trainer& trainer) {
    add(trainer);
    trainer.add<InDouble>("in_double");
  };
  return setup;
}

double bytes_of(const Trained& trained) {
  size_t bytes = 0;
  for (const auto& [name, weight] : trained.weights) bytes += weight.nbytes();
  return static_cast<double>(bytes);
}

/// L2 norm of what differs in all weights together, as a share of theirs.
double distance(const Trained& a, const Trained& b) {
  double apart = 0, whole = 0;
  for (const auto& [name, weight] : b.weights) {
    apart += (a.weights.at(name) - weight).square().sum().item<double>();
    whole += weight.square().sum().item<double>();
  }
  return std::sqrt(apart / whole);
}

void check_metrics(const Trained& several, const Trained& one) {
  REQUIRE(several.losses.size() == one.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i)
    CHECK(several.losses[i] == Approx(one.losses[i]).epsilon(1e-9));
  for (const std::string name : {"metrics/train/Accuracy", "metrics/eval/Accuracy",
                                 "metrics/eval/Top5Accuracy", "metrics/eval/CrossEntropy"}) {
    CAPTURE(name);
    CHECK(several.metrics.at(name) == Approx(one.metrics.at(name)).epsilon(1e-9));
  }
  CHECK(several.time.batch == one.time.batch);
  CHECK(several.time.sample == one.time.sample);
  CHECK(several.time.epoch == one.time.epoch);
}

}  // namespace

TEST_CASE("1, 2 and 4 ranks train alike in float64", "[ranks][slow]") {
  const std::string name = GENERATE(as<std::string>(), "plain", "grad_accum", "grad_clip_norm",
                                    "the six", "ema", "randaugment", "randaugment in the loader",
                                    "gradient_clipping", "adaptive clipping", "sam");
  CAPTURE(name);
  const auto setup = setup_of(name);
  const auto one = train_on(1, setup);
  REQUIRE(one.losses.size() == 50);
  CHECK(one.time.sample == 5 * 100 + 5 * 12);
  CHECK(one.summary.world_size == 1);
  for (const int64_t size : {2, 4}) {
    CAPTURE(size);
    const auto several = train_on(size, setup);
    CHECK(difference(several, one) < 1e-9);
    check_metrics(several, one);
    CHECK(several.summary.world_size == size);
    CHECK(several.summary.samples_per_second > 0);
  }
}

void check_divides_what_it_keeps(const std::string& name) {
  const auto whole = setup_of(name);
  const auto one = train_on(1, whole);
  for (const std::string parallelism : {"zero1", "fsdp"}) {
    auto setup = whole;
    setup.change = [&](TrainerParts& parts) {
      whole.change(parts);
      parts.options.parallelism = parallelism;
    };
    for (const int64_t size : {2, 4}) {
      CAPTURE(parallelism, name, size);
      const auto several = train_on(size, setup);
      CHECK(difference(several, one) < 1e-9);
      check_metrics(several, one);
    }
  }
}

TEST_CASE("ranks that divide what they keep train alike in float64", "[ranks][slow]") {
  for (const char* name : {"grad_accum", "sam"}) check_divides_what_it_keeps(name);
}

TEST_CASE("with more methods ranks that divide what they keep train alike in float64",
          "[ranks][long]") {
  for (const char* name :
       {"plain", "the six", "grad_clip_norm", "ema", "gradient_clipping", "adaptive clipping"})
    check_divides_what_it_keeps(name);
}

TEST_CASE("ranks with shares of unequal size train as one", "[ranks]") {
  auto setup = setup_of("plain");
  setup.batch_size = 16;  // 5, 5 and 6; then 1, 1 and 2 of the last batch
  const auto one = train_on(1, setup), three = train_on(3, setup);
  CHECK(difference(three, one) < 1e-9);
  check_metrics(three, one);
}

TEST_CASE("ranks evaluate on further sets as one does, also by the clock", "[ranks][evaluators]") {
  auto setup = setup_of("plain");
  setup.batches = 5;
  setup.change = [](TrainerParts& parts) {
    parts.options.eval_interval = {1e-9, TimeUnit::second};
    const auto ranks = parts.ranks.of_samples();
    parts.evaluators.push_back(
        {"other", noise_loader(22, 6, false, ranks), {{2, TimeUnit::batch}}});
    parts.evaluators.push_back({"last", noise_loader(3, 6, false, ranks), {{9, TimeUnit::epoch}}});
  };
  const auto one = train_on(1, setup);
  for (const int64_t size : {2, 3}) {
    CAPTURE(size);
    const auto several = train_on(size, setup);
    check_metrics(several, one);
    for (const std::string name : {"metrics/other/Accuracy", "metrics/other/CrossEntropy",
                                   "metrics/last/Accuracy", "metrics/last/CrossEntropy"}) {
      CAPTURE(name);
      CHECK(several.metrics.at(name) == Approx(one.metrics.at(name)).epsilon(1e-9));
    }
  }
}

TEST_CASE("bytes that ranks send and who is slowest are logged", "[ranks]") {
  auto setup = setup_of("grad_accum");
  setup.batches = 3;
  const auto two = train_on(2, setup);
  CHECK(two.metrics.at("comm/bytes") == bytes_of(two));
  const double slowest = two.metrics.at("ranks/slowest");
  CHECK((slowest == 0 || slowest == 1));
  CHECK(two.metrics.at("ranks/slowest_excess") >= 0);
  CHECK(two.metrics.at("ranks/wait") > 0);
  const auto one = train_on(1, setup);
  CHECK_FALSE(one.metrics.contains("comm/bytes"));
  CHECK_FALSE(one.metrics.contains("ranks/slowest"));
}

TEST_CASE("the rank that takes long is the slowest", "[ranks]") {
  struct Sleep : Algorithm {
    void before_forward(State& state) override {
      if (state.ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
  };
  Setup setup;
  setup.batches = 4;
  setup.change = [](TrainerParts& parts) {
    parts.options.log_interval = {2, TimeUnit::batch};
    parts.eval_loader = nullptr;
  };
  setup.add = [](Trainer& trainer) { trainer.add<Sleep>("sleep"); };
  const auto two = train_on(2, setup);
  CHECK(two.metrics.at("ranks/slowest") == 1);
  CHECK(two.metrics.at("ranks/slowest_excess") > 0.05);  // half of what it takes longer
  CHECK(two.metrics.at("ranks/wait") > 0.05);
}

TEST_CASE("updates of parts of a batch are as many on every rank", "[ranks]") {
  struct Divide : Algorithm {
    void batch_start(State& state) override { state.updates = 4; }
  };
  auto setup = setup_of("plain");
  setup.batch_size = 10, setup.batches = 10;  // shares of 3, 3 and 4
  const auto add = setup.add;
  setup.add = [add](Trainer& trainer) {
    add(trainer);
    trainer.add<Divide>("divide");
  };
  const auto three = train_on(3, setup);
  CHECK(three.time.batch == 10);
  for (const double loss : three.losses) CHECK(std::isfinite(loss));
}

TEST_CASE("in float32 a real network trains alike on 1, 2 and 4 ranks", "[ranks][slow]") {
  Setup setup;
  setup.batches = 12, setup.batch_size = 8, setup.image_size = 32;
  setup.model = [] {
    ResNet::Params params;
    params.model_name = "resnet18", params.norm = "group_norm", params.num_classes = 10;
    return std::make_shared<ResNet>(params);
  };
  setup.change = [](TrainerParts& parts) {
    parts.eval_loader = nullptr;
    SgdParams sgd;
    // Small enough for the loss to stay where no last bit of a value next to ReLU's edge matters.
    sgd.lr = 0.001, sgd.momentum = 0.9;
    parts.optimizer = std::make_shared<Sgd>(sgd);
  };
  const auto one = train_on(1, setup);
  for (const int64_t size : {2, 4}) {
    const auto several = train_on(size, setup);
    CHECK(several.losses[0] == Approx(one.losses[0]).epsilon(1e-5));
    CHECK(distance(several, one) < 1e-5);
  }
}

}  // namespace composer::training_test
