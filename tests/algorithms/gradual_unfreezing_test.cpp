#include "algorithms/gradual_unfreezing.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"

namespace composer::gradual_unfreezing_test {

using Catch::Matchers::Contains;
using test::Fixture;

namespace {

/// A stem, a convolution with a norm, a head; images [N, 3, H, W].
class NormedModel : public Model {
 public:
  NormedModel() {
    add<Conv2d>("conv1", Conv2dOptions{3, 4, {3, 3}});
    add<BatchNorm2d>("bn1", 4);
    add<Conv2d>("conv2", Conv2dOptions{4, 4, {3, 3}});
    add<BatchNorm2d>("bn2", 4);
    add<AdaptiveAvgPool2d>("average");
    add<Linear>("fc", 4, 2);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 2; }
};

std::vector<std::string> trained(const Model& model) {
  std::vector<std::string> names;
  for (const auto& parameter : model.named_parameters())
    if (parameter.value().requires_grad() && parameter.key().ends_with("weight"))
      names.push_back(parameter.key());
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("gradual_unfreezing's schedule thaws evenly from start until its end",
          "[gradual_unfreezing]") {
  const auto count = [](double elapsed, int64_t layers = 6) {
    return GradualUnfreezing::trained(elapsed, layers, 0.25, 0.75);
  };
  CHECK(count(0) == 1);
  CHECK(count(0.2499) == 1);
  CHECK(count(0.25) == 2);
  CHECK(count(0.37) == 2);
  CHECK(count(0.375) == 3);
  CHECK(count(0.625) == 5);
  CHECK(count(0.7499) == 5);
  CHECK(count(0.75) == 6);
  CHECK(count(1) == 6);
  for (const int64_t layers : {1, 2}) {
    CHECK(count(0, layers) == 1);
    CHECK(count(0.25, layers) == layers);
    CHECK(count(0.5, layers) == layers);
  }
  CHECK(GradualUnfreezing::trained(0.2, 6, 0.2, 0.2) == 6);
}

TEST_CASE("unfreeze_last trains the last layers, and norms of the others keep their statistics",
          "[gradual_unfreezing]") {
  NormedModel model;
  const auto layers = trained_layers(model);
  REQUIRE(layers.size() == 3);
  unfreeze_last(model, layers, 2);
  CHECK(trained(model) == Names{"conv2.weight", "bn2.weight", "fc.weight"});
  const auto buffers = model.named_buffers();
  const auto first = buffers["bn1.running_mean"].clone(),
             second = buffers["bn2.running_mean"].clone();
  model.train();
  model.forward(at::randn({4, 3, 8, 8}) + 1);
  CHECK(at::equal(buffers["bn1.running_mean"], first));
  CHECK_FALSE(at::equal(buffers["bn2.running_mean"], second));
  unfreeze_last(model, layers, 3);
  CHECK(trained(model).size() == 5);
  model.forward(at::randn({4, 3, 8, 8}) + 1);
  CHECK_FALSE(at::equal(buffers["bn1.running_mean"], first));
}

TEST_CASE("gradual_unfreezing thaws, logs and plans by the time alone", "[gradual_unfreezing]") {
  Fixture f;
  GradualUnfreezing thawing({});
  thawing.fit_start(f.state);
  CHECK(trained(*f.state.model) == Names{"fc.weight"});
  f.state.time = f.state.run_length.at_batch(10);
  thawing.batch_start(f.state);
  CHECK(trained(*f.state.model) == Names{"conv3.weight", "fc.weight"});
  CHECK(f.logged("gradual_unfreezing/layers_trained") == 2);
  f.state.time = f.state.run_length.at_batch(49);
  thawing.batch_start(f.state);
  CHECK(trained(*f.state.model).size() == 3);

  Fixture resumed;
  resumed.state.time = f.state.time;
  GradualUnfreezing({}).fit_start(resumed.state);
  CHECK(trained(*resumed.state.model) == trained(*f.state.model));
  f.state.time = f.state.run_length.at_batch(50);
  CHECK(thawing.planned(f.state)[0] ==
        std::pair<std::string, double>("gradual_unfreezing/layers_trained", 4));
}

TEST_CASE("gradual_unfreezing takes other times, and leaves alone what freeze froze",
          "[gradual_unfreezing]") {
  Fixture f;
  f.state.model->freeze({"conv2.*"});
  GradualUnfreezing thawing({.start = {20, TimeUnit::batch}, .until = {0.4, TimeUnit::duration}});
  thawing.fit_start(f.state);
  CHECK(trained(*f.state.model) == Names{"fc.weight"});
  f.state.time = f.state.run_length.at_batch(20);
  thawing.batch_start(f.state);
  CHECK(trained(*f.state.model) == Names{"conv3.weight", "fc.weight"});
  f.state.time = f.state.run_length.at_batch(40);
  thawing.batch_start(f.state);
  CHECK(trained(*f.state.model) == Names{"conv1.weight", "conv3.weight", "fc.weight"});
}

TEST_CASE("gradual_unfreezing refuses times that contradict each other", "[gradual_unfreezing]") {
  using P = GradualUnfreezing::Params;
  CHECK(P{}.check().empty());
  CHECK_THAT((P{.start = {2, TimeUnit::epoch}, .until = {1, TimeUnit::epoch}}.check()),
             Contains("until: must not be before start (2ep)"));
  CHECK_THAT((P{.start = {5, TimeUnit::second}}.check()), Contains("start: must be in ep"));
  CHECK_THAT((P{.until = {2, TimeUnit::duration}}.check()), Contains("until: must be at most"));
  Fixture f;
  CHECK_THROWS_WITH(GradualUnfreezing({.start = {60, TimeUnit::batch}}).fit_start(f.state),
                    Contains("until: 0.5dur is before start, 60ba"));
}

TEST_CASE("gradual_unfreezing stands beside no other method that freezes", "[gradual_unfreezing]") {
  const auto excludes = GradualUnfreezing::compatibility().excludes;
  for (const char* other : {"layer_freezing", "whitening", "no_op_model"})
    CHECK(std::ranges::count(excludes, other, &Compatibility::Exclusion::algorithm) == 1);
}

TEST_CASE("a run with gradual_unfreezing resumes to the same weights", "[gradual_unfreezing]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t stop_at) {
    auto parts = tiny_parts();
    parts.model = std::make_shared<NormedModel>();
    parts.options.max_duration = {3, TimeUnit::epoch};
    parts.options.run_dir = folder.path().string();
    parts.options.run_name = name;
    parts.options.autoresume = true;
    Trainer trainer(std::move(parts));
    trainer.add<GradualUnfreezing>("gradual_unfreezing", GradualUnfreezing::Params{});
    trainer.add<StopAt>("stop", stop_at);
    trainer.fit();
    auto weights = weights_of(trainer);
    for (const auto& buffer : trainer.state().model->buffers())
      weights = at::cat({weights, buffer.to(at::kFloat).flatten()});
    return std::pair(weights, trained(*trainer.state().model).size());
  };
  const auto [weights, last] = run("whole", 0);
  CHECK(last == 5);
  CHECK(run("stopped", 4).second == 3);
  CHECK(at::equal(run("stopped", 0).first, weights));
}

}  // namespace composer::gradual_unfreezing_test
