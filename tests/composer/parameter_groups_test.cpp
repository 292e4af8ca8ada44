#include "nn/optimization/parameter_groups.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "nn/network/layers.h"
#include "nn/optimization/muon.h"
#include "nn/optimization/optimizers.h"

namespace composer::parameter_groups_test {

using Catch::Contains;

namespace {

class Twig final : public Block {
 public:
  Twig() {
    add<Conv2d>("conv", Conv2dOptions{.in_channels = 4, .out_channels = 4, .kernel = {1, 1}});
    add<BatchNorm2d>("bn", 4);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
};

std::shared_ptr<Layer> sequential(std::vector<std::shared_ptr<Layer>> layers) {
  return std::make_shared<Sequential>(std::move(layers));
}

std::shared_ptr<Layer> plain_conv() {
  return std::make_shared<Conv2d>(
      Conv2dOptions{.in_channels = 4, .out_channels = 4, .kernel = {1, 1}, .bias = false});
}

class Tree final : public Block {
 public:
  Tree() {
    add("stem", plain_conv());
    add<BatchNorm2d>("bn", 4);
    add("stage", sequential({std::make_shared<Twig>(), std::make_shared<Twig>()}));
    add("down", sequential({std::make_shared<BatchNorm2d>(4), plain_conv()}));
    add("plain", sequential({plain_conv(), std::make_shared<BatchNorm2d>(4), plain_conv()}));
    add<AdaptiveAvgPool2d>("pool");
    add("head", sequential({std::make_shared<BatchNorm2d>(4), std::make_shared<Linear>(4, 2)}));
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
};

const ParameterGroup& group_of(const Optimizer& optimizer, const std::string& name) {
  for (const auto& group : optimizer.groups())
    if (std::ranges::find(group.names, name) != group.names.end()) return group;
  throw std::runtime_error("no parameter " + name);
}

GroupParams read(const std::string& yaml, Problems& problems) {
  GroupParams params;
  const auto map = parse_yaml(yaml, "r.yaml", problems);
  if (map) read_fields(*map, collect(params), "optimizer.sgd", problems);
  return params;
}

}  // namespace

TEST_CASE("parameters are counted from the input to the output", "[parameter_groups]") {
  Tree tree;
  using Names = std::vector<std::string>;
  CHECK(parameters_by_depth(tree) ==
        std::vector<Names>{
            {"stem.weight", "bn.weight", "bn.bias"},
            {"stage.0.conv.weight", "stage.0.conv.bias", "stage.0.bn.weight", "stage.0.bn.bias"},
            {"stage.1.conv.weight", "stage.1.conv.bias", "stage.1.bn.weight", "stage.1.bn.bias"},
            {"down.0.weight", "down.0.bias", "down.1.weight"},
            {"plain.0.weight", "plain.1.weight", "plain.1.bias"},
            {"plain.2.weight"},
            {"head.0.weight", "head.0.bias", "head.1.weight", "head.1.bias"}});
}

TEST_CASE("a stem is one layer, with the norm behind it", "[parameter_groups]") {
  Sequential network({sequential({plain_conv(), std::make_shared<BatchNorm2d>(4), plain_conv()}),
                      std::make_shared<BatchNorm2d>(4),
                      sequential({std::make_shared<Twig>(), std::make_shared<Twig>()}),
                      std::make_shared<Linear>(4, 2)});
  const auto layers = parameters_by_depth(network);
  REQUIRE(layers.size() == 4);
  CHECK(layers[0].size() == 6);
}

TEST_CASE("decoupled weight decay falls with the learning rates of groups", "[parameter_groups]") {
  Tree tree;
  DecoupledSgdw optimizer({.lr = 0.1,
                           .momentum = 0,
                           .weight_decay = 0.01,
                           .grouping = {.groups = {{"head.*", 10}}, .layer_decay = 0.5}});
  optimizer.attach(tree);
  optimizer.scale_lr({{"head.1.weight", 2}});
  const auto before = tree.named_parameters();
  std::map<std::string, at::Tensor> copies;
  for (const auto& item : before) {
    copies[item.key()] = item.value().detach().clone();
    item.value().mutable_grad() = at::zeros_like(item.value());
  }
  optimizer.step();
  const auto share = [&](const char* name) {
    return 1 - (before[name].detach().sum() / copies[name].sum()).item<double>();
  };
  CHECK(share("head.1.weight") == Approx(0.1).epsilon(1e-3));
  CHECK(share("plain.2.weight") == Approx(0.005).epsilon(1e-3));
}

TEST_CASE("layer_decay asks for parameters in layers; scales of channels do not decay",
          "[parameter_groups]") {
  Tree tree;
  tree.register_parameter("scale", at::ones({4, 1, 1}));
  Sgd sgd({.lr = 0.1, .weight_decay = 0.01, .no_decay_norm_bias = true});
  sgd.attach(tree);
  CHECK(group_of(sgd, "scale").weight_decay == 0);
  Sgd deep({.lr = 0.1, .grouping = {.layer_decay = 0.5}});
  CHECK_THROWS_WITH(deep.attach(tree), Contains("'scale'"));
}

TEST_CASE("muon leaves weights alone whose learning rate is 0", "[parameter_groups]") {
  Tree tree;
  Muon optimizer({.grouping = {.groups = {{"stem.*", 0}}}});
  optimizer.attach(tree);
  for (auto& parameter : tree.parameters()) parameter.mutable_grad() = at::ones_like(parameter);
  const auto weight = tree.named_parameters()["stem.weight"];
  const auto before = weight.detach().clone();
  optimizer.step();
  CHECK(at::equal(weight, before));
}

TEST_CASE("learning rates fall with depth", "[parameter_groups]") {
  Tree tree;
  Sgd optimizer({.lr = 0.1, .weight_decay = 0.01, .grouping = {.layer_decay = 0.5}});
  optimizer.attach(tree);
  CHECK(optimizer.groups().size() == 7);
  CHECK(group_of(optimizer, "head.1.bias").initial_lr == 0.1);
  CHECK(group_of(optimizer, "plain.2.weight").initial_lr == 0.05);
  CHECK(group_of(optimizer, "stem.weight").initial_lr == Approx(0.1 / 64));
  for (const auto& group : optimizer.groups()) CHECK(group.weight_decay == 0.01);
  optimizer.set_lr_multiplier(0.5);
  CHECK(group_of(optimizer, "stem.weight").lr.item<float>() == Approx(0.05 / 64));
  CHECK(optimizer.lr() == 0.05);

  torch::nn::Module plain;
  plain.register_parameter("weight", at::ones({2}));
  CHECK_THROWS_WITH(optimizer.attach(plain), Contains("layer_decay"));
}

TEST_CASE("the pattern head stands for the last layer", "[parameter_groups]") {
  Tree tree;
  Sgd optimizer({.lr = 0.1, .grouping = {.groups = {{"*.bias", 2}, {"head", 10, 0.5}}}});
  optimizer.attach(tree);
  CHECK(group_of(optimizer, "head.1.weight").initial_lr == Approx(1));
  CHECK(group_of(optimizer, "head.1.weight").weight_decay == 0.5);
  CHECK(group_of(optimizer, "head.1.bias").initial_lr == Approx(0.2));
  CHECK(group_of(optimizer, "plain.2.weight").initial_lr == Approx(0.1));

  for (const auto& item : tree.named_parameters())
    if (item.key().starts_with("head")) item.value().set_requires_grad(false);
  Sgd frozen({.lr = 0.1, .grouping = {.groups = {{"head", 10}}}});
  CHECK_THROWS_WITH(frozen.attach(tree), Contains("pattern 'head' fits no parameter"));

  Sequential called({sequential({plain_conv(), std::make_shared<Linear>(4, 2)})});
  called.register_parameter("head", at::ones({4}));
  Sgd named({.lr = 0.1, .grouping = {.groups = {{"head", 10}}}});
  named.attach(called);
  CHECK(group_of(named, "head").initial_lr == Approx(1));
  CHECK(group_of(named, "0.1.weight").initial_lr == Approx(0.1));
}

TEST_CASE("patterns give parameters settings of their own", "[parameter_groups]") {
  Tree tree;
  Sgd optimizer({.lr = 0.1,
                 .weight_decay = 0.01,
                 .no_decay_norm_bias = true,
                 .grouping = {.groups = {{"head.*", 10, 0.5}, {"*.bias", 2}, {"*", 0.5, 0}}}});
  optimizer.attach(tree);
  const auto check = [&](const char* name, double lr, double decay) {
    INFO(name);
    CHECK(group_of(optimizer, name).initial_lr == Approx(lr));
    CHECK(group_of(optimizer, name).weight_decay == decay);
  };
  check("head.1.weight", 1, 0.5);
  check("head.1.bias", 1, 0.5);
  check("bn.bias", 0.2, 0);
  check("stem.weight", 0.05, 0);

  Sgd wrong({.lr = 0.1, .grouping = {.groups = {{"fc.*"}, {"*.weight"}, {"layer9.?"}}}});
  try {
    wrong.attach(tree);
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(error.problems().size() == 2);
    CHECK_THAT(error.what(), Contains("'fc.*' fits no parameter") && Contains("'layer9.?'") &&
                                 Contains("stem.weight"));
  }
}

TEST_CASE("groups are read from recipes, and written as they are read", "[parameter_groups]") {
  Problems problems;
  const auto params = read(
      "groups: [{pattern: 'fc.*', lr_scale: 10}, {pattern: '*.bias', weight_decay: 0}]\n"
      "layer_decay: 0.75\n",
      problems);
  CHECK(problems.empty());
  REQUIRE(params.groups.size() == 2);
  CHECK(params.groups[0].pattern == "fc.*");
  CHECK(params.groups[0].lr_scale == 10);
  CHECK_FALSE(params.groups[0].weight_decay);
  CHECK(params.groups[1].weight_decay == 0.0);
  CHECK(params.layer_decay == 0.75);

  GroupParams same = params;
  const auto again = read(to_yaml(write_fields(collect(same))), problems);
  CHECK(problems.empty());
  CHECK(again.groups.size() == 2);
  CHECK(again.groups[1].pattern == "*.bias");
  CHECK(again.groups[0].lr_scale == 10);
}

TEST_CASE("what is wrong with groups is named", "[parameter_groups]") {
  Problems problems;
  read("groups: [{lr_scale: -1}, fc, {pattern: a, lr: 1}]\nlayer_decay: 2\n", problems);
  const auto said = lines(problems);
  REQUIRE(said.size() == 5);
  CHECK_THAT(said[0], Contains("r.yaml:1:10: optimizer.sgd.groups.pattern: missing required key"));
  CHECK_THAT(said[1], Contains("groups.lr_scale: must be at least 0"));
  CHECK_THAT(said[2], Contains("groups: must be a map of keys, not 'fc'"));
  CHECK_THAT(said[3], Contains("groups.lr: unknown key"));
  CHECK_THAT(said[4], Contains("layer_decay"));

  MuonParams muon;
  CHECK(muon.check().empty());
  muon.grouping.groups = {{"fc.*", 1, 0.1}};
  CHECK_THAT(muon.check(), Contains("sgd_weight_decay"));
}

}  // namespace composer::parameter_groups_test
