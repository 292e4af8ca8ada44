#include "algorithms/channels_last.h"

#include <catch2/catch.hpp>

#include "tests/algorithms/tiny_model.h"

namespace composer::channels_last_test {

using test::Fixture;

TEST_CASE("channels_last converts 4-D weights in place and changes no value", "[channels_last]") {
  Fixture f;
  const auto parameters = f.state.model->parameters();
  std::vector<at::Tensor> before;
  for (const auto& parameter : parameters) before.push_back(parameter.detach().clone());
  const double loss = f.loss();

  ChannelsLast().init(f.state);

  CHECK(f.state.memory_format == at::MemoryFormat::ChannelsLast);
  for (size_t i = 0; i < parameters.size(); ++i) {
    CHECK(at::equal(parameters[i], before[i]));
    CHECK(parameters[i].requires_grad());
    if (parameters[i].dim() == 4)
      CHECK(parameters[i].suggest_memory_format() == at::MemoryFormat::ChannelsLast);
  }
  CHECK(f.loss() == Approx(loss).epsilon(1e-5));
}

TEST_CASE("channels_last reaches the model's outputs and gradients", "[channels_last]") {
  Fixture f;
  ChannelsLast().init(f.state);
  auto conv = Conv2d({.in_channels = 3, .out_channels = 8, .kernel = {3, 3}});
  apply_channels_last(conv);
  const auto images = f.state.batch.input.contiguous(f.state.memory_format);
  CHECK(conv.forward(images).is_contiguous(at::MemoryFormat::ChannelsLast));

  f.state.model->loss(f.state.model->forward(images), f.state.batch.target).backward();
  const auto weight = f.state.model->named_parameters()["conv3.weight"];
  CHECK(weight.grad().strides() == weight.strides());
}

TEST_CASE("channels_last asks to run after other surgery", "[channels_last]") {
  CHECK(ChannelsLast().order(Event::init) == Algorithm::Order::last);
}

}  // namespace composer::channels_last_test
