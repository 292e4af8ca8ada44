#include "algorithms/bias_lr_scale.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "nn/optimization/optimizers.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::bias_lr_scale_test {

using test::Fixture;

namespace {

/// conv (with a bias), two normalisation layers, fc.
class NormModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 5; }

 private:
  Slot& conv_ = add<Conv2d>("conv", Conv2dOptions{3, 8, {3, 3}});
  Slot& norm_ = add<BatchNorm2d>("norm", 8);
  Slot& again_ = add<BatchNorm2d>("again", 8);
  Slot& average_ = add<AdaptiveAvgPool2d>("average");
  Slot& fc_ = add<Linear>("fc", 8, 5);
};

std::shared_ptr<Optimizer> optimizer() {
  SgdParams params;
  params.lr = 0.5, params.momentum = 0.9, params.weight_decay = 0.125;
  return std::make_shared<Sgd>(params);
}

const ParameterGroup& group_of(const State& state, const std::string& name) {
  for (const auto& group : state.optimizer->groups())
    if (std::ranges::find(group.names, name) != group.names.end()) return group;
  throw std::out_of_range(name);
}

void step(State& state) {
  state.optimizer->zero_grad();
  state.model->loss(state.model->forward(state.batch.input), state.batch.target).backward();
  state.optimizer->step();
}

struct NormFixture : Fixture {
  NormFixture() {
    state.model = std::make_shared<NormModel>();
    state.optimizer = optimizer();
    state.optimizer->attach(*state.model);
  }
};

}  // namespace

TEST_CASE("biases are found by the module they belong to", "[bias_lr_scale]") {
  const NormModel model;
  CHECK(bias_names(model, true) == std::vector<std::string>{"norm.bias", "again.bias"});
  CHECK(bias_names(model, false) ==
        std::vector<std::string>{"conv.bias", "norm.bias", "again.bias", "fc.bias"});
}

TEST_CASE("the learning rate is scaled, the share of weight decay kept", "[bias_lr_scale]") {
  NormFixture f;
  BiasLrScale({}).fit_start(f.state);
  const auto& scaled = group_of(f.state, "norm.bias");
  CHECK(scaled.names == std::vector<std::string>{"norm.bias", "again.bias"});
  CHECK(scaled.initial_lr == 32);
  CHECK(scaled.weight_decay * scaled.initial_lr == Approx(0.125 * 0.5));
  CHECK(group_of(f.state, "norm.weight").initial_lr == 0.5);
  CHECK(group_of(f.state, "conv.bias").initial_lr == 0.5);

  NormFixture all;
  BiasLrScale({.scale = 2, .biases = "all"}).fit_start(all.state);
  CHECK(group_of(all.state, "fc.bias").initial_lr == 1);
  CHECK(group_of(all.state, "fc.weight").initial_lr == 0.5);
}

TEST_CASE("factors of two algorithms multiply", "[bias_lr_scale]") {
  struct LastLayers : Algorithm {
    void fit_start(State& state) override {
      state.optimizer->scale_lr({{"again.bias", 0.5}, {"fc.weight", 0.25}});
    }
  };
  const bool scaled_first = GENERATE(true, false);
  NormFixture f;
  f.state.optimizer->set_lr_multiplier(0.5);
  if (scaled_first) BiasLrScale({.scale = 8}).fit_start(f.state);
  LastLayers().fit_start(f.state);
  if (!scaled_first) BiasLrScale({.scale = 8}).fit_start(f.state);
  const auto check = [&](const char* name, double factor) {
    const auto& group = group_of(f.state, name);
    CAPTURE(name);
    CHECK(group.initial_lr == 0.5 * factor);
    CHECK(group.lr.item<double>() == 0.25 * factor);
    CHECK(group.weight_decay * group.initial_lr == Approx(0.125 * 0.5));
  };
  check("norm.bias", 8), check("again.bias", 4), check("fc.weight", 0.25), check("fc.bias", 1);
}

TEST_CASE("one step moves a bias that much further", "[bias_lr_scale]") {
  NormFixture plain, scaled;
  {
    const at::NoGradGuard no_grad;
    const auto from = plain.state.model->parameters(), to = scaled.state.model->parameters();
    for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }
  scaled.state.batch.input = plain.state.batch.input;
  BiasLrScale({.scale = 8}).fit_start(scaled.state);
  step(plain.state), step(scaled.state);
  const auto moved = [](const NormFixture& f, const char* name) {
    return f.state.model->named_parameters()[name].detach();
  };
  CHECK(at::allclose(moved(scaled, "again.bias"), 8 * moved(plain, "again.bias")));
  CHECK(at::equal(moved(scaled, "fc.bias"), moved(plain, "fc.bias")));
}

TEST_CASE("the factors outlive a resumption and surgery", "[bias_lr_scale]") {
  NormFixture first, second;
  BiasLrScale({}).fit_start(first.state);
  first.state.optimizer->set_lr_multiplier(0.25);
  step(first.state);
  second.state.optimizer->load_state_dict(first.state.optimizer->state_dict());
  BiasLrScale({}).fit_start(second.state);
  CHECK(group_of(second.state, "norm.bias").lr.item<double>() == 8);
  CHECK(group_of(second.state, "fc.bias").lr.item<double>() == 0.125);
  for (const auto& [name, tensor] : first.state.optimizer->state_dict().tensors)
    CHECK(at::equal(tensor, second.state.optimizer->state_dict().tensors.at(name)));

  second.state.optimizer->follow(*second.state.model);
  CHECK(group_of(second.state, "norm.bias").initial_lr == 32);
}

TEST_CASE("a model without such biases is refused", "[bias_lr_scale]") {
  Fixture f;
  f.state.optimizer = optimizer();
  f.state.optimizer->attach(*f.state.model);
  CHECK_THROWS_AS(BiasLrScale({}).fit_start(f.state), UserError);
  CHECK_NOTHROW(BiasLrScale({.biases = "all"}).fit_start(f.state));
}

}  // namespace composer::bias_lr_scale_test
