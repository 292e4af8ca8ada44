#include "algorithms/selective_backprop.h"

#include <catch2/catch.hpp>

#include "algorithms/cutmix.h"
#include "algorithms/stochastic_depth.h"
#include "models/resnet_cifar.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/tiny_run.h"
#include "tests/gpu.h"

namespace composer::selective_backprop_test {

using test::Fixture;
using Params = SelectiveBackprop::Params;

namespace {

/// Logits (the image's mean, 0).
class MeanModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    sizes.push_back(input.size(2));
    const auto mean = input.mean({1, 2, 3});
    return at::stack({mean, at::zeros_like(mean)}, 1);
  }
  int64_t num_classes() const override { return 2; }

  std::vector<int64_t> sizes;
};

/// Image i is full of values[i].
at::Tensor flat_images(const std::vector<float>& values) {
  return at::tensor(values).view({-1, 1, 1, 1}).expand({-1, 3, 8, 8}).contiguous();
}

Batch batch_of(const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  return {flat_images(values),
          {.classes = at::zeros({n}, at::kLong), .other_classes = {}, .other_weight = {}}};
}

at::Tensor ranks(std::vector<int64_t> values) { return at::tensor(values); }

}  // namespace

TEST_CASE("it selects from start to end, but for the interrupting batches",
          "[selective_backprop]") {
  const auto active = SelectiveBackprop::active;
  CHECK_FALSE(active(0.49, 0, {}));
  CHECK(active(0.5, 0, {}));
  CHECK_FALSE(active(0.5, 1, {}));
  CHECK(active(0.5, 2, {}));
  CHECK_FALSE(active(0.9, 0, {}));
  CHECK(active(0.5, 1, {.interrupt = 3}));
  CHECK_FALSE(active(0.5, 2, {.interrupt = 3}));
  for (int64_t batch = 0; batch < 4; ++batch) {
    CHECK(active(0.6, batch, {.interrupt = 0}));
    CHECK_FALSE(active(0.6, batch, {.interrupt = 1}));
    CHECK_FALSE(active(0.6, batch, {.keep = 1, .interrupt = 0}));
  }
  CHECK(Params{.start = 0.9}.check().starts_with("end: "));
  CHECK(Params{}.check().empty());
}

TEST_CASE("ranks are drawn without replacement, high ones more often", "[selective_backprop]") {
  constexpr int64_t n = 4, draws = 20000;
  std::vector<double> kept(n, 0);
  for (uint64_t i = 0; i < draws; ++i) {
    Random random(1, "test", 0, i);
    const auto drawn = drawn_ranks(n, 0.5, random);
    REQUIRE(drawn.size(0) == 2);
    REQUIRE(drawn[0].item<int64_t>() < drawn[1].item<int64_t>());
    for (int64_t k = 0; k < 2; ++k) ++kept[static_cast<size_t>(drawn[k].item<int64_t>())];
  }
  // Weights 1, 3, 5, 7 of 16: the chance to be first, or second after any other.
  const std::array<double, 4> weight{1.0 / 16, 3.0 / 16, 5.0 / 16, 7.0 / 16};
  for (size_t i = 0; i < weight.size(); ++i) {
    double chance = weight[i];
    for (size_t j = 0; j < weight.size(); ++j)
      if (j != i) chance += weight[j] * weight[i] / (1 - weight[j]);
    CHECK(kept[i] / draws == Approx(chance).margin(0.015));
  }
}

TEST_CASE("the share of kept samples is rounded down, and one is always kept",
          "[selective_backprop]") {
  const auto kept = [](int64_t n, double keep) {
    Random random(1, "test", 0, 0);
    return drawn_ranks(n, keep, random).size(0);
  };
  CHECK(kept(10, 0.5) == 5);
  CHECK(kept(7, 0.5) == 3);
  CHECK(kept(100, 0.29) == 29);
  CHECK(kept(3, 0.1) == 1);
  CHECK(kept(3, 1) == 3);
}

TEST_CASE("select_by_loss keeps whole samples by rank, in the batch's order",
          "[selective_backprop]") {
  auto batch = batch_of({1, 2, 3, 4});
  batch.input = batch.input.contiguous(at::MemoryFormat::ChannelsLast);
  batch.target = {.classes = at::tensor({0L, 1L, 2L, 3L}),
                  .other_classes = at::tensor({4L, 5L, 6L, 7L}),
                  .other_weight = at::tensor({.1f, .2f, .3f, .4f}),
                  .smoothing = 0.1};
  const auto losses = at::tensor({9.f, 1.f, 5.f, 7.f});
  const auto kept = select_by_loss(batch, losses, ranks({1, 3}));
  CHECK(at::equal(kept.input, flat_images({1, 3})));
  CHECK(kept.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::equal(kept.target.classes, at::tensor({0L, 2L})));
  CHECK(at::equal(kept.target.other_classes, at::tensor({4L, 6L})));
  CHECK(at::equal(kept.target.other_weight, at::tensor({.1f, .3f})));
  CHECK(kept.target.smoothing == 0.1);
}

TEST_CASE("sample_losses gives each sample's loss on the reduced images", "[selective_backprop]") {
  MeanModel model;
  const auto batch = batch_of({0, 2, -3});
  const auto losses = sample_losses(model, batch, 0.7);
  CHECK(model.sizes == std::vector<int64_t>{5});
  CHECK_FALSE(losses.requires_grad());
  for (int64_t i = 0; i < 3; ++i) {
    const auto mean = batch.input[i].mean().item<double>();
    CHECK(losses[i].item<double>() == Approx(std::log(1 + std::exp(-mean))));
  }
}

TEST_CASE("images are reduced as PyTorch's interpolate does", "[selective_backprop]") {
  class Echo : public Model {
   public:
    at::Tensor forward(const at::Tensor& input) override { return input.flatten(1); }
    at::Tensor loss(const at::Tensor& logits, const Target&, Over) override { return logits[0]; }
    int64_t num_classes() const override { return 1; }
  } echo;
  const auto images = at::arange(50, at::kFloat).pow(1.5).div(10).view({1, 2, 5, 5});
  const auto reduced = sample_losses(echo, {images, {}}, 0.7);
  // torch 2.11: interpolate(images, scale_factor=0.7, mode="bilinear", align_corners=False)
  const auto expected = at::tensor(
      {0.27256313f, 0.53852832f, 0.91557097f, 2.52605414f, 3.16819978f, 3.85779309f, 6.16128731f,
       7.02588320f, 7.92565918f, 13.50806999f, 14.62114716f, 15.76176357f, 19.36614990f,
       20.61782074f, 21.89404488f, 25.85284615f, 27.22987938f, 28.62924767f});
  CHECK(at::allclose(reduced, expected, 1e-5, 1e-6));
}

TEST_CASE("the extra pass leaves no trace in batch norm", "[selective_backprop]") {
  ResNetCifar model({.model_name = "resnet_20", .initializers = {}});
  std::vector<at::Tensor> before;
  for (const auto& buffer : model.buffers()) before.push_back(buffer.clone());
  sample_losses(model, {at::randn({4, 3, 8, 8}), {at::arange(4), {}, {}, 0}});
  const auto after = model.buffers();
  for (size_t i = 0; i < before.size(); ++i) CHECK(at::equal(after[i], before[i]));
}

TEST_CASE("a batch keeps its share of samples, in microbatches and on any device alike",
          "[selective_backprop][gpu]") {
  const auto selected = [](int64_t grad_accum, at::Device device) {
    Fixture f;
    f.state.model->to(device);
    f.state.device = device;
    f.state.batch.input = at::randn({16, 3, 32, 32}).to(device);
    f.state.batch.target.classes = (at::arange(16) % 5).to(device);
    f.state.time.batch = f.state.time.batch_in_epoch = 50;
    f.state.grad_accum = grad_accum;
    SelectiveBackprop({}).after_dataloader(f.state);
    CHECK(f.state.first_sample == 0);
    CHECK(f.state.batch.target.classes.size(0) == 8);
    return f.state.batch.input.cpu();
  };
  const auto whole = selected(1, at::kCPU);
  REQUIRE(whole.size(0) == 8);
  CHECK(at::equal(selected(3, at::kCPU), whole));
  if (test::has_gpu()) CHECK(at::equal(selected(1, at::kCUDA), whole));
}

TEST_CASE("the samples with larger losses are what is left", "[selective_backprop]") {
  Fixture f;
  f.state.model = std::make_shared<MeanModel>();
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(static_cast<float>((i * 37) % 64) / 8 - 4);
  double kept = 0;
  for (int64_t batch = 50; batch < 60; batch += 2) {
    f.state.batch = batch_of(values);
    f.state.time.batch = f.state.time.batch_in_epoch = batch;
    SelectiveBackprop({}).after_dataloader(f.state);
    kept += f.state.batch.input.mean().item<double>() / 5;
  }
  CHECK(kept < -0.8);  // class 0: the loss is large where the mean is small
}

TEST_CASE("methods that mix mix what was selected; a resumed run selects the same",
          "[selective_backprop][resume]") {
  StochasticDepth::Params growing;
  growing.stochastic_method = GENERATE("block", "sample");
  growing.drop_distribution = "uniform";
  growing.drop_rate = 0.9;
  growing.drop_warmup = {12, TimeUnit::batch};
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t batches) {
    auto parts = tiny_parts();
    parts.options.max_duration = {12, TimeUnit::batch};
    parts.options.grad_accum = 2;
    parts.options.precision = "amp_bf16";
    parts.options.run_dir = folder.path().string();
    parts.options.run_name = name;
    parts.options.autoresume = true;
    parts.model = std::make_shared<ResNetCifar>(
        ResNetCifar::Params{.model_name = "resnet_20", .num_classes = 2, .initializers = {}});
    Trainer trainer(std::move(parts));
    trainer.add<CutMix>("cutmix", CutMix::Params{});
    trainer.add<SelectiveBackprop>("selective_backprop", Params{.start = 0, .end = 1});
    trainer.add<StochasticDepth>("stochastic_depth", growing);
    struct Stop : Callback {
      explicit Stop(int64_t at) : at(at) {}
      void batch_end(const State& state, Logger&, RunControl& control) override {
        if (state.time.batch == at) control.request_stop("the test says so");
      }
      int64_t at;
    };
    trainer.add<Stop>("stop", batches);
    trainer.fit();
    CHECK(trainer.engine().order(Event::after_dataloader) ==
          std::vector<std::string>{"selective_backprop", "cutmix", "stochastic_depth"});
    return weights_of(trainer);
  };
  const auto whole = run("whole", 12);
  run("stopped", 5);
  CHECK(at::equal(run("stopped", 12), whole));
}

TEST_CASE("a plan sees the share of samples", "[selective_backprop]") {
  Fixture f;
  const SelectiveBackprop algorithm({});
  CHECK(algorithm.planned(f.state)[0].second == 1);
  f.state.time.batch = 50;
  CHECK(algorithm.planned(f.state)[0] ==
        std::pair<std::string, double>("selective_backprop/keep", 0.5));
}

TEST_CASE("values of selective_backprop out of range are refused", "[selective_backprop]") {
  const auto problems = [](const std::string& key, const std::string& value) {
    SelectiveBackprop::Params params;
    auto given = Value::map();
    given.set(key, Value::scalar(value));
    Problems found;
    read_fields(given, collect(params), "selective_backprop", found);
    return found.size();
  };
  CHECK(problems("keep", "0") == 1);
  CHECK(problems("scale_factor", "1.5") == 1);
  CHECK(problems("interrupt", "-1") == 1);
  CHECK(problems("end", "0.5") == 1);
}

}  // namespace composer::selective_backprop_test
