#include "composer/comparison/step_check.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "nn/network/fused_norm.h"
#include "nn/network/layers.h"
#include "nn/optimization/optimizers.h"
#include "tests/composer/tiny_run.h"

namespace composer::step_check_test {

using Catch::Contains;

namespace {

/// What is wrong with a layer, while the side with the wrong one is trained.
enum class Fault { none, output, gradient };

/// A convolution that can be made wrong.
class Doubtful : public Conv2d {
 public:
  Doubtful(const Conv2dOptions& options, const Fault& fault) : Conv2d(options), fault_(fault) {}
  at::Tensor forward(const at::Tensor& input) override {
    const auto output = Conv2d::forward(input);
    if (fault_ == Fault::output) return output + 1;
    if (fault_ == Fault::gradient) return output + (output - output.detach());
    return output;
  }

 private:
  const Fault& fault_;
};

class Net : public Model {
 public:
  Net(const Fault& fault, bool draws) : draws_(draws) {
    for (int64_t i = 1; i <= 3; ++i) {
      const Conv2dOptions options{
          .in_channels = i == 1 ? 3 : 8, .out_channels = 8, .kernel = {3, 3}, .padding = {1, 1}};
      const auto number = std::to_string(i);
      layers_.push_back(i == 2 ? &add<Doubtful>("conv" + number, options, fault)
                               : &add<Conv2d>("conv" + number, options));
      layers_.push_back(&add<BatchNorm2d>("bn" + number, 8));
      layers_.push_back(&add<ReLU>("relu" + number));
    }
    layers_.push_back(&add<AdaptiveAvgPool2d>("pool"));
    layers_.push_back(&add<Linear>("fc", 8, 2));
  }
  at::Tensor forward(const at::Tensor& input) override {
    auto output = input;
    for (const Slot* layer : layers_) {
      output = (*layer)(output);
      if (draws_ && layer == layers_.front()) output = at::dropout(output, 0.5, /*train=*/true);
    }
    return output;
  }
  int64_t num_classes() const override { return 2; }

 private:
  bool draws_;
  std::vector<Slot*> layers_;
};

/// A network, and what is wrong with it inside of a scope.
struct Bench {
  Fault now = Fault::none;
  bool draws = false;  ///< by LibTorch's generator

  CheckedSide side(const std::string& precision, Fault fault = Fault::none) {
    const auto parts = [this, precision] {
      auto made = tiny_parts();
      at::manual_seed(7);
      made.model = std::make_shared<Net>(now, draws);
      made.options.precision = precision;
      made.options.eval_interval = {1, TimeUnit::batch};
      return made;
    };
    const auto scope = [this, fault] {
      now = fault;
      return std::shared_ptr<void>(nullptr, [this](void*) { now = Fault::none; });
    };
    return {parts, scope};
  }
};

CheckedSide changed(CheckedSide side, std::function<void(TrainerParts&)> change) {
  side.parts = [parts = std::move(side.parts), change = std::move(change)] {
    auto made = parts();
    change(made);
    return made;
  };
  return side;
}

template <class Method>
CheckedSide with(const CheckedSide& side, const Method& method) {
  return changed(side, [method](TrainerParts& parts) {
    parts.algorithms.push_back(
        {"method", std::make_shared<Method>(method), subscriptions<Method>()});
  });
}

bool equal(const StepCheck& check) {
  return std::ranges::all_of(check.deviations, [](const Deviation& one) {
    return std::ranges::count(one.by_step, 0.0) == std::ssize(one.by_step);
  });
}

const Deviation& of(const StepCheck& check, const std::string& what) {
  return *std::ranges::find(check.deviations, what, &Deviation::what);
}

}  // namespace

TEST_CASE("two equal sides do not differ by a bit, also over the end of an epoch", "[check]") {
  Bench bench;
  const auto check = check_steps(bench.side("fp32"), bench.side("fp32"), {.steps = 5});
  CHECK(check.within());
  REQUIRE(check.deviations.size() == 5);
  for (const auto& deviation : check.deviations) {
    INFO(deviation.what << " " << deviation.tensor);
    CHECK(deviation.by_step == std::vector<double>(5, 0.0));
    CHECK(deviation.first.empty());
  }
  CHECK(check.batch_size == 8);
  CHECK(check.checked.precision == Precision::fp32);
}

namespace {

struct HalvesWeights : Algorithm {
  void epoch_end(State& state) override {
    const at::NoGradGuard no_grad;
    for (auto& parameter : state.model->parameters()) parameter.mul_(0.5);
  }
};

struct TwoUpdates : Algorithm {
  void batch_start(State& state) override {
    state.updates = 2;
    for (const auto& group : state.optimizer->groups()) at::Tensor(group.lr).div_(2);
  }
};

/// Scales gradients far down.
struct Shrinks : Algorithm {
  explicit Shrinks(double factor) : factor(factor) {}
  void after_train_batch(State& state) override {
    for (const auto& gradient : state.optimizer->gradients()) at::Tensor(gradient).mul_(factor);
  }
  double factor;
};

struct Inverts : Algorithm {
  void augment(State& state) override { state.raw_batch.images.bitwise_not_(); }
};

}  // namespace

TEST_CASE("what methods do to the weights between two steps is done on both sides", "[check]") {
  Bench bench;
  const auto side = with(bench.side("fp32"), HalvesWeights());
  CHECK(equal(check_steps(side, side, {.steps = 6})));
}

TEST_CASE("a batch's updates are compared one by one", "[check]") {
  Bench bench;
  const auto side = with(bench.side("fp32"), TwoUpdates());
  const auto same = check_steps(side, side, {.steps = 3});
  CHECK(equal(same));
  CHECK(of(same, "gradients").by_step.size() == 3);
  const auto rounded = check_steps(with(bench.side("bf16"), TwoUpdates()), side, {.steps = 2});
  for (const auto& deviation : rounded.deviations) {
    INFO(deviation.what << " " << deviation.tensor << " " << deviation.worst());
    CHECK(deviation.within());
  }
  const auto wrong =
      check_steps(with(bench.side("bf16", Fault::gradient), TwoUpdates()), side, {.steps = 1});
  CHECK_THAT(of(wrong, "gradients").first, Contains("conv2.") && Contains("in update 2"));
}

TEST_CASE("what methods do to gradients is no noise: reversed ones are found", "[check]") {
  Bench bench;
  const auto reference = with(bench.side("fp32"), Shrinks(1e-3));
  CHECK(check_steps(with(bench.side("bf16"), Shrinks(1e-3)), reference, {.steps = 2}).within());
  const auto wrong = check_steps(with(bench.side("bf16"), Shrinks(-1e-3)), reference, {.steps = 2});
  CHECK_FALSE(of(wrong, "gradients").within());
}

TEST_CASE("batches are the same though methods write to them", "[check]") {
  Bench bench;
  const auto side = with(bench.side("fp32"), Inverts());
  CHECK(equal(check_steps(side, side, {.steps = 2})));
}

TEST_CASE("what layers draw is the same on both sides, and after a record", "[check]") {
  Bench bench;
  bench.draws = true;
  CHECK(equal(check_steps(bench.side("fp32"), bench.side("fp32"), {.steps = 5})));
}

TEST_CASE("a run that so many seconds end is refused", "[check]") {
  Bench bench;
  const auto side = changed(bench.side("fp32"), [](TrainerParts& parts) {
    parts.options.max_duration = {0.3, TimeUnit::second};
  });
  CHECK_THROWS_WITH(check_steps(side, side, {}), Contains("max_duration: 0.3sec"));
  CHECK_THROWS_AS(check_steps(side, side, {}), UserError);
}

TEST_CASE("bf16 is within its tolerances of float32, which it does not equal", "[check]") {
  Bench bench;
  const auto check = check_steps(bench.side("bf16"), bench.side("fp32"), {.steps = 3});
  CHECK(check.checked.precision == Precision::amp_bf16);
  CHECK(check.reference.precision == Precision::fp32);
  for (const auto& deviation : check.deviations) {
    INFO(deviation.what << " " << deviation.tensor << " " << deviation.worst());
    CHECK(deviation.within());
    if (deviation.what == "loss" || deviation.what == "logits") CHECK(deviation.worst() > 0);
  }
}

TEST_CASE("a layer whose output is wrong is found by the statistics behind it", "[check]") {
  Bench bench;
  const auto check =
      check_steps(bench.side("bf16", Fault::output), bench.side("fp32"), {.steps = 2});
  CHECK_FALSE(check.within());
  const auto& statistics = of(check, "statistics");
  CHECK_FALSE(statistics.within());
  CHECK(statistics.first == "bn2.running_mean");
  CHECK(statistics.tensor == "bn2.running_mean");
}

TEST_CASE("a layer whose gradient is wrong is found and named", "[check]") {
  Bench bench;
  const auto check =
      check_steps(bench.side("bf16", Fault::gradient), bench.side("fp32"), {.steps = 2});
  CHECK_FALSE(check.within());
  CHECK(of(check, "logits").within());
  CHECK(of(check, "statistics").within());
  const auto& gradients = of(check, "gradients");
  CHECK_FALSE(gradients.within());
  CHECK_THAT(gradients.first, Contains("conv2."));
  CHECK(of(check, "weights").within());  // updated by the reference's gradients
}

TEST_CASE("an optimizer that is wrong is found, whatever the gradients' rounding", "[check]") {
  Bench bench;
  auto other = bench.side("bf16");
  other.parts = [parts = other.parts] {
    auto made = parts();
    SgdParams sgd;
    sgd.lr = 0.101;
    sgd.momentum = 0.9;
    made.optimizer = std::make_shared<Sgd>(sgd);
    return made;
  };
  const auto check = check_steps(other, bench.side("fp32"), {.steps = 2});
  CHECK(of(check, "gradients").within());
  CHECK_FALSE(of(check, "weights").within());
  CHECK(of(check, "weights").worst() == Approx(0.01).epsilon(0.05));
}

TEST_CASE("to be recorded changes nothing of a run", "[check]") {
  Bench bench;
  bench.draws = GENERATE(false, true);
  const auto weights = [&](bool recorded) {
    auto parts = bench.side("fp32").parts();
    parts.options.max_duration = {3, TimeUnit::batch};
    Trainer trainer(std::move(parts));
    const StepWitness* none = nullptr;
    if (recorded) trainer.add<StepWitness>("step_witness", 3, 0, none);
    trainer.fit();
    return weights_of(trainer);
  };
  CHECK(at::equal(weights(true), weights(false)));
}

namespace {

/// Infinite gradients wherever they are computed for the second time in a step.
struct OverflowsAgain : Algorithm {
  void fit_start(State& state) override {
    state.recompute_gradients = [&state, calls = 0,
                                 recompute = state.recompute_gradients]() mutable {
      if (calls++ % 2 == 1) return recompute();
      auto weight = state.model->parameters().front();
      const auto kept = weight.clone();
      weight.fill_(INFINITY);
      recompute();
      weight.copy_(kept);
    };
  }
};

}  // namespace

TEST_CASE("loss scaling does not learn from what a record computes again", "[check]") {
  Bench bench;
  const auto weights = [&](bool recorded) {
    auto parts = bench.side("amp_fp16").parts();
    parts.options.max_duration = {4, TimeUnit::batch};
    parts.options.on_nan = "ignore";
    Trainer trainer(std::move(parts));
    trainer.add<OverflowsAgain>("overflows");
    const StepWitness* none = nullptr;
    if (recorded) trainer.add<StepWitness>("recorder", 4, 0, none);
    trainer.fit();
    return weights_of(trainer);
  };
  CHECK(at::equal(weights(true), weights(false)));
}

TEST_CASE("an optimizer's pass is kept back as other operators are", "[check]") {
  const auto updated = [](bool unfused) {
    at::manual_seed(1);
    TinyModel model;
    Sgd sgd({});
    sgd.attach(model);
    for (auto& parameter : model.parameters()) parameter.mutable_grad() = at::ones_like(parameter);
    const auto before = Unfused::kept_back();
    std::optional<Unfused> kept;
    if (unfused) kept.emplace();
    sgd.step();
    CHECK((Unfused::kept_back() > before) == unfused);
    return model.parameters().front().detach().clone();
  };
  CHECK(at::allclose(updated(true), updated(false)));
}

TEST_CASE("steps begin with the reference's weights; free ones go on by themselves", "[check]") {
  Bench bench;
  const auto wrong = bench.side("fp32", Fault::gradient);
  const auto held = check_steps(wrong, bench.side("fp32"), {.steps = 4});
  const auto& loss = of(held, "loss");
  CHECK(loss.by_step == std::vector<double>(4, 0.0));
  CHECK(held.free_losses.empty());

  const auto freed = check_steps(wrong, bench.side("fp32"), {.steps = 1, .free_steps = 3});
  CHECK(of(freed, "loss").by_step.size() == 1);
  REQUIRE(freed.free_losses.size() == 3);
  CHECK(freed.free_losses.front().first == freed.free_losses.front().second);
  CHECK(freed.free_losses.back().first != freed.free_losses.back().second);
}

TEST_CASE("a run that ends early is compared as far as it goes, one at its end is an error",
          "[check]") {
  Bench bench;
  const auto with_length = [&](double batches) {
    auto side = bench.side("fp32");
    side.parts = [parts = side.parts, batches] {
      auto made = parts();
      made.options.max_duration = {batches, TimeUnit::batch};
      return made;
    };
    return side;
  };
  const auto check = check_steps(with_length(2), with_length(2), {.steps = 5});
  CHECK(of(check, "loss").by_step.size() == 2);

  const TemporaryFolder folder;
  auto trained = with_length(2).parts();
  trained.options.run_dir = folder.path();
  trained.options.run_name = "run";
  Trainer(std::move(trained)).fit();
  auto ended = with_length(2);
  ended.parts = [parts = ended.parts, &folder] {
    auto made = parts();
    made.options.load_path = folder.path() / "run/checkpoints/latest";
    return made;
  };
  CHECK_THROWS_WITH(check_steps(ended, ended, {}), Contains("no step left to train"));
}

TEST_CASE("what deviations are relative to", "[check]") {
  const auto ones = at::ones({4});
  TrainedState before{.weights = {{"w", ones}}, .statistics = {}};
  StepRecord reference;
  reference.loss = 2;
  reference.logits = at::full({1, 4}, 3.0);
  reference.gradients = {{"large", at::full({4}, 10.0)}, {"tiny", at::full({4}, 1e-6)}};
  reference.after.weights = {{"w", ones * 0.9}};
  auto checked = reference;
  const auto tolerances = tolerances_of(Precision::fp32, Precision::amp_bf16);
  const auto measured = [&] { return deviations({{checked, reference, before}}, tolerances); };
  for (const auto& deviation : measured()) CHECK(deviation.worst() == 0);

  checked.loss = 2.2;
  checked.logits = reference.logits * 1.5;
  checked.gradients[0].second = at::full({4}, 14.0);
  reference.gradient_noise = {3.0, 0.0};
  checked.gradients[1].second = at::full({4}, 0.1);  // little beside the others
  checked.after.weights = {{"w", ones * 0.95}};
  auto found = measured();
  CHECK(found[0].worst() == Approx(0.1));
  CHECK(found[1].worst() == Approx(0.5));
  CHECK(found[2].worst() == Approx(0.1 / (0.1 * std::sqrt(50))).epsilon(0.01));
  CHECK(found[2].tensor == "tiny");
  reference.gradient_noise = {1.0, 0.0};
  CHECK(measured()[2].worst() == Approx((8 - 3) / 20.0));
  CHECK(measured()[2].tensor == "large");
  CHECK(found[3].worst() == Approx(0.5).epsilon(1e-3));
  CHECK(found[3].tensor == "w");
  CHECK(found[0].tolerance == tolerances.loss);

  const auto first_wrong =
      deviations({{checked, reference, before}, {reference, reference, before}}, tolerances);
  for (const auto& deviation : first_wrong) {
    CHECK(deviation.step == 0);
    CHECK(deviation.by_step[1] == 0);
  }
  CHECK(first_wrong[0].worst() == Approx(0.1));

  checked.after.weights = {{"w", ones * 0.9 * (1 + 5e-8)}};
  CHECK(measured()[3].worst() == 0);  // rounding

  checked.loss = std::nan("");
  checked.gradients.pop_back();
  found = measured();
  CHECK(std::isinf(found[0].worst()));
  CHECK(std::isinf(found[2].worst()));
  CHECK(found[2].tensor == "tiny");
  CHECK(found[2].first == "tiny");
}

TEST_CASE("the coarser arithmetic decides what is tolerated", "[check]") {
  const auto bf16 = tolerances_of(Precision::amp_bf16, Precision::fp32);
  CHECK(bf16.gradients == tolerances_of(Precision::fp32, Precision::amp_bf16).gradients);
  const auto fp16 = tolerances_of(Precision::amp_fp16, Precision::fp32);
  const auto fp32 = tolerances_of(Precision::fp32, Precision::fp32);
  CHECK(fp32.logits < fp16.logits);
  CHECK(fp16.logits < bf16.logits);
}

TEST_CASE("gradients of fused norms are as near the exact ones as those step by step", "[check]") {
  const auto gradients = [](int64_t seed, at::ScalarType type, bool fused) {
    std::optional<Unfused> unfused;
    if (!fused) unfused.emplace();
    at::manual_seed(static_cast<uint64_t>(seed));
    const Fault none = Fault::none;
    Net net(none, /*draws=*/false);
    net.to(type);
    const auto images =
        at::randn({16, 3, 8, 8}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    const Target target{.classes = at::randint(2, {16}), .other_classes = {}, .other_weight = {}};
    net.loss(net.forward(images), target).backward();
    std::vector<at::Tensor> all;
    for (const auto& parameter : net.parameters())
      all.push_back(parameter.grad().to(at::kDouble).flatten());
    return at::cat(all);
  };
  double ours = 0, theirs = 0;
  for (int64_t seed = 0; seed < 5; ++seed) {
    const auto exact = gradients(seed, at::kDouble, false);
    const auto error = [&](bool fused) {
      return ((gradients(seed, at::kFloat, fused) - exact).norm() / exact.norm()).item<double>();
    };
    ours += error(true), theirs += error(false);
  }
  INFO(ours / 5 << " against " << theirs / 5);
  CHECK(ours < 1e-5);
  CHECK(ours < 2 * theirs);
}

}  // namespace composer::step_check_test
