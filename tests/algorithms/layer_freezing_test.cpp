#include "algorithms/layer_freezing.h"

#include <catch2/catch.hpp>

#include "nn/optimization/optimizers.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"

namespace composer::layer_freezing_test {

using test::Fixture;

namespace {

std::vector<std::string> trained(const Model& model) {
  std::vector<std::string> names;
  for (const auto& parameter : model.named_parameters())
    if (parameter.value().requires_grad()) names.push_back(parameter.key());
  return names;
}

}  // namespace

TEST_CASE("layer_freezing's schedule grows linearly from its start", "[layer_freezing]") {
  const auto frozen = [](double elapsed, LayerFreezing::Params params) {
    return LayerFreezing::frozen(elapsed, 11, params);
  };
  CHECK(frozen(0.0, {.freeze_start = 0}) == 0);
  CHECK(frozen(0.5, {}) == 0);
  CHECK(frozen(0.75, {}) == 5);
  CHECK(frozen(1.0, {}) == 10);
  CHECK(frozen(1.0, {.freeze_level = 0.5}) == 5);
  CHECK(frozen(1.0, {.freeze_start = 1}) == 0);
  CHECK(LayerFreezing::frozen(1.0, 1, {}) == 0);
}

TEST_CASE("freeze_layers stops the first layers and clears their gradients", "[layer_freezing]") {
  Fixture f;
  auto& model = *f.state.model;
  CHECK(layers_with_parameters(model).size() == 4);
  const auto backward = [&] {
    model.loss(model.forward(f.state.batch.input), f.state.batch.target).backward();
  };
  backward();
  freeze_layers(model, 2);
  CHECK(trained(model) ==
        std::vector<std::string>{"conv3.weight", "conv3.bias", "fc.weight", "fc.bias"});
  backward();
  for (const auto& parameter : model.named_parameters())
    CHECK(parameter.value().grad().defined() == parameter.value().requires_grad());
}

TEST_CASE("frozen layers keep their weights whatever the optimizer adds", "[layer_freezing]") {
  Fixture f;
  auto& model = *f.state.model;
  SgdParams sgd;
  sgd.lr = 0.1;
  sgd.momentum = 0.9;
  sgd.weight_decay = 0.1;
  Sgd optimizer(sgd);
  optimizer.attach(model);
  const auto step = [&] {
    optimizer.zero_grad();
    model.loss(model.forward(f.state.batch.input), f.state.batch.target).backward();
    optimizer.step();
  };
  step();
  freeze_layers(model, 1);
  const auto parameters = model.named_parameters();
  const auto frozen = parameters["conv1.weight"].detach().clone();
  const auto moving = parameters["conv2.weight"].detach().clone();
  step();
  CHECK(at::equal(parameters["conv1.weight"], frozen));
  CHECK_FALSE(at::equal(parameters["conv2.weight"], moving));
}

TEST_CASE("layer_freezing freezes at epoch ends, logs, and resumes in mid-epoch",
          "[layer_freezing]") {
  Fixture f;
  f.state.run_length.batches_per_epoch = 10;
  f.state.time = f.state.run_length.at_batch(80);
  LayerFreezing freezing({});
  freezing.epoch_end(f.state);
  CHECK(trained(*f.state.model).size() == 6);
  CHECK(f.logged("layer_freezing/layers_frozen") == 1);
  CHECK(f.logged("layer_freezing/percentage_frozen") == 25);

  Fixture resumed;
  resumed.state.run_length = f.state.run_length;
  resumed.state.time = f.state.run_length.at_batch(89);
  LayerFreezing({}).fit_start(resumed.state);
  CHECK(trained(*resumed.state.model) == trained(*f.state.model));
  CHECK(freezing.planned(resumed.state)[0].second == 1);

  Fixture fresh;
  LayerFreezing({}).fit_start(fresh.state);
  CHECK(trained(*fresh.state.model).size() == 8);
}

TEST_CASE("a run with layer_freezing resumes to the same weights", "[layer_freezing]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t stop_at) {
    auto parts = tiny_parts();
    parts.model = std::make_shared<test::TinyModel>();
    parts.options.max_duration = {3, TimeUnit::epoch};
    parts.options.run_dir = folder.path().string();
    parts.options.run_name = name;
    parts.options.autoresume = true;
    Trainer trainer(std::move(parts));
    trainer.add<LayerFreezing>("layer_freezing", LayerFreezing::Params{.freeze_start = 0});
    trainer.add<StopAt>("stop", stop_at);
    trainer.fit();
    return std::pair(weights_of(trainer), trained(*trainer.state().model).size());
  };
  const auto [weights, last] = run("whole", 0);
  CHECK(last == 2);
  CHECK(run("stopped", 6).second == 6);
  CHECK(at::equal(run("stopped", 0).first, weights));
}

}  // namespace composer::layer_freezing_test
