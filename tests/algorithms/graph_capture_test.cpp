// Which algorithms let steps be replayed, and that they then train as without.
#include <catch2/catch.hpp>

#include "known.h"
#include "resnet20.h"
#include "tests/composer/rerun.h"
#include "tests/composer/tiny_run.h"

namespace composer::graph_capture_test {

using test::known;
using test::Rerun;

namespace {

/// What the weights and batch-norm statistics of ResNet-20 are after 8 batches of 8 x 8 pixels.
at::Tensor trained(const std::vector<std::string>& algorithms,
                   std::shared_ptr<StepRecorder> recorder, int64_t grad_accum = 1) {
  auto parts = tiny_parts();
  parts.options.grad_accum = grad_accum;
  parts.eval_loader = nullptr;
  parts.model = test::resnet20();
  parts.step_recorder = std::move(recorder);
  for (const auto& name : algorithms) {
    auto component = known().algorithms.make(name);
    if (name == "gradient_clipping") {
      auto values = Value::map();
      values.set("clipping_type", Value::scalar("adaptive"));
      values.set("clipping_threshold", Value::scalar("0.01"));
      Problems problems;
      read_fields(values, component->fields(), name, problems);
      REQUIRE(problems.empty());
    }
    parts.algorithms.push_back({name, component->build(), component->subscriptions()});
  }
  Trainer trainer(std::move(parts));
  trainer.fit();
  auto all = weights_of(trainer);
  for (const auto& buffer : trainer.state().model->buffers())
    all = at::cat({all, buffer.flatten().to(at::kFloat)});
  return all;
}

}  // namespace

TEST_CASE("algorithms say whether their steps may be replayed", "[algorithms][captured_steps]") {
  const std::map<std::string, std::string> against{
      {"activation_checkpointing", "sets LibTorch's generators back in each step"},
      {"dropout", "draws on the host in every forward pass"},
      {"quantization_aware",
       "the layers compute with rounded numbers from algorithms.quantization_aware.start on"},
      {"sam", "computes the gradients of a batch twice, in every interval-th step"},
      {"stochastic_depth", "draws on the host in every forward pass"}};
  for (const auto& name : known().algorithms.names()) {
    INFO(name);
    const auto found = against.find(name);
    CHECK(known().algorithms.make(name)->build()->prevents_graph_capture() ==
          (found == against.end() ? "" : found->second));
  }
}

TEST_CASE("every built-in algorithm works where weights are divided", "[algorithms]") {
  for (const auto& name : known().algorithms.names()) {
    INFO(name);
    CHECK(known().algorithms.make(name)->build()->prevents_sharding().empty());
  }
}

TEST_CASE("ResNet-20 trains to the same bits by replayed steps", "[algorithms][captured_steps]") {
  const std::vector<std::string> algorithms =
      GENERATE(std::vector<std::string>{"label_smoothing", "gradient_clipping", "mixup", "ema"},
               std::vector<std::string>{"channels_last", "blurpool", "cutmix", "lookahead"},
               std::vector<std::string>{"progressive_batch_size", "layer_freezing", "swa"},
               std::vector<std::string>{"gradual_unfreezing", "cutmix", "ema"},
               std::vector<std::string>{"ghost_batchnorm", "cutout", "selective_backprop"});
  const int64_t grad_accum = GENERATE(1, 2);
  CAPTURE(algorithms, grad_accum);
  Rerun::Counts counts;
  const auto plain = trained(algorithms, nullptr, grad_accum);
  const auto replayed = trained(algorithms, std::make_shared<Rerun>(counts), grad_accum);
  CHECK(at::equal(plain, replayed));
  CHECK(counts.replays > 0);
}

}  // namespace composer::graph_capture_test
