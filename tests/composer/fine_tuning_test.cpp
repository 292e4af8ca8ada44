#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "composer/callbacks/callbacks.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/weights.h"
#include "nn/network/metrics.h"
#include "stopped_run.h"
#include "tiny_run.h"

namespace composer::fine_tuning_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

TrainerParts parts_in(const TemporaryFolder& folder) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  return parts;
}

TensorMap copies(const Model& model) {
  auto tensors = model_tensors(model);
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
  return tensors;
}

class NormModel : public Model {
 public:
  NormModel() {
    add<Conv2d>("conv", Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {3, 3}});
    add<BatchNorm2d>("bn", 4);
    add<AdaptiveAvgPool2d>("pool");
    add<Linear>("fc", 4, 2);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 2; }
};

/// Another network of TinyModel's tensors.
class StridedModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return fc_(pool_(op::relu(conv_(input))));
  }
  int64_t num_classes() const override { return 2; }

 private:
  Slot& conv_ = add<Conv2d>("conv", Conv2dOptions{3, 4, {3, 3}, {2, 2}});
  Slot& pool_ = add<AdaptiveAvgPool2d>("pool");
  Slot& fc_ = add<Linear>("fc", 4, 2);
};

/// Gives evaluations the accuracies of a list.
class Accuracies : public Callback {
 public:
  explicit Accuracies(std::vector<double> values) : values_(std::move(values)) {}
  void eval_end(const State& state, Logger&, RunControl&) override {
    auto& metrics = const_cast<State&>(state).eval_metrics;
    metrics["metrics/eval/Accuracy"] = values_.at(next_++);
  }

 private:
  std::vector<double> values_;
  size_t next_ = 0;
};

}  // namespace

TEST_CASE("load_ignore leaves a new head fresh", "[load]") {
  const TemporaryFolder folder;
  TinyModel source;
  auto tensors = copies(source);
  tensors["fc.weight"] = at::randn({1000, 4});
  tensors["fc.bias"] = at::randn({1000});
  write_safetensors(folder / "w.safetensors", tensors);

  auto parts = tiny_parts();
  parts.options.load_path = (folder / "w.safetensors").string();
  SECTION("not asked for, the shapes are an error that tells the way") {
    CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(), Contains("--load_ignore 'fc.*'"));
  }
  SECTION("asked for, all but the head is taken") {
    parts.options.load_ignore = {"fc.*"};
    const auto fresh = copies(*parts.model);
    Trainer trainer(std::move(parts));
    trainer.prepare();
    const auto now = copies(*trainer.state().model);
    CHECK(at::equal(now.at("conv.weight"), tensors.at("conv.weight")));
    CHECK(at::equal(now.at("fc.weight"), fresh.at("fc.weight")));
    CHECK_FALSE(at::equal(now.at("conv.weight"), fresh.at("conv.weight")));
  }
  SECTION("a pattern that fits nothing is an error") {
    parts.options.load_ignore = {"fc.*", "head.*"};
    CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(),
                      Contains("load_ignore: 'head.*' fits no tensor"));
  }
}

TEST_CASE("load_strict: false lists what stayed fresh and what was left over", "[load]") {
  TinyModel model;
  auto tensors = copies(model);
  tensors.extract("fc.bias");
  tensors["aux.weight"] = at::zeros({2});
  CHECK_THROWS_AS(assign_weights(model, tensors, "w"), UserError);
  const auto unloaded = assign_weights(model, tensors, "w", {.strict = false});
  CHECK(unloaded.fresh == std::vector<std::string>{"fc.bias"});
  CHECK(unloaded.left_over == std::vector<std::string>{"aux.weight"});

  const auto ignored = assign_weights(model, tensors, "w", {.ignore = {"fc.*"}, .strict = false});
  CHECK(ignored.fresh == std::vector<std::string>{"fc.bias", "fc.weight"});
  CHECK(ignored.left_over == std::vector<std::string>{"aux.weight"});  // fc.weight is told of above

  tensors["fc.weight"] = at::zeros({7, 7});
  CHECK_THROWS_WITH(assign_weights(model, tensors, "w", {.strict = false}),
                    Contains("another shape"));
  CHECK_THROWS_WITH(assign_weights(model, {{"x", at::zeros({1})}}, "w", {.strict = false}),
                    Contains("nothing of it would be loaded"));
  CHECK_THROWS_WITH(
      assign_weights(model, tensors, "w", {.ignore = {"fc"}}),
      Contains("load_ignore: 'fc' fits no tensor") && Contains("did you mean 'fc.*'?"));
}

TEST_CASE("frozen parameters and their batch norms stay as they are", "[freeze]") {
  auto parts = tiny_parts();
  parts.model = std::make_shared<NormModel>();
  parts.options.freeze = {"conv.*", "bn.?eight", "bn.bias"};
  const auto before = copies(*parts.model);
  Trainer trainer(std::move(parts));
  trainer.fit();
  const auto after = copies(*trainer.state().model);
  for (const char* name :
       {"conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}) {
    CAPTURE(name);
    CHECK(at::equal(before.at(name), after.at(name)));
  }
  CHECK_FALSE(at::equal(before.at("fc.weight"), after.at("fc.weight")));
  for (const auto& group : trainer.state().optimizer->groups())
    for (const auto& name : group.names) CHECK(name.starts_with("fc."));
}

TEST_CASE("what cannot be frozen is refused", "[freeze]") {
  auto parts = tiny_parts();
  SECTION("a pattern without a parameter") {
    parts.options.freeze = {"layer1.*"};
    CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(),
                      Contains("freeze: 'layer1.*' fits no parameter") && Contains("conv.weight"));
  }
  SECTION("a layer") {
    const std::string layer = GENERATE("conv", "con"), whole = layer == "con" ? "con*" : "conv.*";
    parts.options.freeze = {layer};
    CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(),
                      Contains("fits no parameter of the model; did you mean '" + whole + "'?"));
  }
  SECTION("everything") {
    parts.options.freeze = {"*"};
    CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(), Contains("nothing is left to train"));
  }
}

TEST_CASE("early_stopper ends a run that stopped improving", "[early_stopper]") {
  auto parts = tiny_parts();
  parts.options.max_duration = {10, TimeUnit::epoch};
  Trainer trainer(std::move(parts));
  trainer.add<Accuracies>("accuracies", std::vector<double>{0.5, 0.7, 0.7, 0.6, 0.7, 0.9});
  EarlyStopper::Params params;
  params.patience = {2, TimeUnit::epoch};
  trainer.add<EarlyStopper>("early_stopper", params);
  CHECK(trainer.fit().time.epoch == 5);
}

TEST_CASE("early_stopper goes on counting after a resumption", "[early_stopper]") {
  State state;
  Logger logger;
  RunControl control;
  EarlyStopper before({}), after({});
  state.time.epoch = 1, state.eval_metrics["metrics/eval/Accuracy"] = 0.5;
  before.eval_end(state, logger, control);
  after.load_state_dict(before.state_dict());
  state.time.epoch = 2;
  after.eval_end(state, logger, control);
  CHECK(control.stop_reason().empty());
  state.time.epoch = 3;
  after.eval_end(state, logger, control);
  CHECK_THAT(control.stop_reason(), Contains("has not improved for more than 1ep"));

  state.model = std::make_shared<TinyModel>();
  EarlyStopper again({});
  RunControl fresh;
  again.load_state_dict(after.state_dict());
  again.fit_start(state, logger, fresh);
  CHECK_THAT(fresh.stop_reason(), Contains("has not improved for more than 1ep"));
}

TEST_CASE("early_stopper names a metric that there is", "[early_stopper]") {
  auto parts = tiny_parts();
  Trainer trainer(std::move(parts));
  EarlyStopper::Params params;
  params.monitor = "metrics/eval/Acuracy";
  trainer.add<EarlyStopper>("early_stopper", params);
  CHECK_THROWS_WITH(trainer.fit(), Contains("early_stopper.monitor: there is no") &&
                                       Contains("metrics/eval/CrossEntropy"));
  CHECK(trainer.state().time.batch == 0);
}

TEST_CASE("save_best keeps the best checkpoint beside the newest", "[save_best]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.options.max_duration = {4, TimeUnit::epoch};
  parts.options.save_num_checkpoints_to_keep = 1;
  parts.options.save_best = "metrics/eval/Accuracy";
  Trainer trainer(std::move(parts));
  trainer.add<Accuracies>("accuracies", std::vector<double>{0.5, 0.9, 0.7, 0.8});
  trainer.fit();
  const auto checkpoints = folder / "run" / "checkpoints";
  CHECK(fs::read_symlink(checkpoints / "best") == "ep2-ba8");
  CHECK(load_checkpoint(checkpoints / "best").time.batch == 8);
  CHECK(fs::read_symlink(checkpoints / "latest") == "ep4-ba16");
  CHECK_FALSE(fs::exists(checkpoints / "ep3-ba12"));
}

TEST_CASE("a resumed run knows the best of before", "[save_best]") {
  const TemporaryFolder folder;
  const auto run = [&](int64_t epochs, std::vector<double> accuracies) {
    auto parts = parts_in(folder);
    parts.options.autoresume = true;
    parts.options.max_duration = {static_cast<double>(epochs), TimeUnit::epoch};
    parts.options.save_best = "metrics/eval/Accuracy";
    Trainer trainer(std::move(parts));
    trainer.add<Accuracies>("accuracies", std::move(accuracies));
    trainer.fit();
  };
  run(2, {0.9, 0.5});
  run(4, {0.8, 0.95});
  CHECK(fs::read_symlink(folder / "run" / "checkpoints" / "best") == "ep4-ba16");
  run(5, {0.94});
  CHECK(fs::read_symlink(folder / "run" / "checkpoints" / "best") == "ep4-ba16");
}

TEST_CASE("a best value counts for its own metric and run folder", "[save_best]") {
  BestMetric best, resumed;
  CHECK(best.take("metrics/eval/Accuracy", 0.9));
  resumed.load_state_dict(best.state_dict());
  CHECK_FALSE(resumed.take("metrics/eval/Accuracy", 0.8));
  CHECK(resumed.take("metrics/eval/CrossEntropy", 1.2));
  CHECK_FALSE(resumed.take("metrics/eval/CrossEntropy", 1.3));
}

TEST_CASE("a fine-tuning run with a new head goes on by the same command", "[load][resume]") {
  const TemporaryFolder folder;
  TinyModel source;
  write_safetensors(folder / "w.safetensors", copies(source));
  const auto run = [&](int64_t epochs) {
    auto parts = parts_in(folder);
    parts.options.load_path = (folder / "w.safetensors").string();
    parts.options.load_ignore = {"fc.*"};
    parts.options.autoresume = true;
    parts.options.max_duration = {static_cast<double>(epochs), TimeUnit::epoch};
    Trainer trainer(std::move(parts));
    return trainer.fit().time.epoch;
  };
  CHECK(run(1) == 1);
  CHECK(run(2) == 2);
}

TEST_CASE("load_ignore is refused where all of a checkpoint is taken", "[load]") {
  const TemporaryFolder folder;
  Trainer(parts_in(folder)).fit();
  for (const bool autoresume : {false, true}) {
    CAPTURE(autoresume);
    auto parts = parts_in(folder);
    parts.options.run_name = "other";
    parts.options.load_path = (folder / "run/checkpoints/latest").string();
    parts.options.load_ignore = {"fc.*"};
    parts.options.autoresume = autoresume;
    CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(),
                      Contains("load_ignore: needs load_weights_only true"));
    CHECK_FALSE(fs::exists(folder / "other"));
  }
}

TEST_CASE("a run that is to go on with another network is told what it can do", "[load][resume]") {
  const TemporaryFolder folder;
  Trainer(parts_in(folder)).fit();
  const auto checkpoint = (folder / "run/checkpoints/ep2-ba8").string();
  const auto strided = [&](const std::string& name) {
    auto parts = parts_in(folder);
    parts.model = std::make_shared<StridedModel>();
    parts.options.run_name = name;
    return parts;
  };
  auto parts = strided("run");
  parts.options.autoresume = true;
  CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(),
                    Contains(checkpoint + ": is of another network") &&
                        Contains("give the model and algorithms that it began with") &&
                        Contains("--load_path " + checkpoint +
                                 " --load_weights_only true and another --run_name") &&
                        !Contains("load_strict"));

  parts = strided("other");
  parts.options.load_path = checkpoint;
  CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(),
                    Contains("give --load_weights_only true") && !Contains("load_strict"));
  parts = strided("other");
  parts.options.load_path = checkpoint;
  parts.options.load_weights_only = true;
  CHECK(Trainer(std::move(parts)).fit().status == "completed");
}

TEST_CASE("save_best names a metric that there is", "[save_best]") {
  auto parts = tiny_parts();
  parts.options.save_best = "metrics/eval/Top1";
  CHECK_THROWS_WITH(Trainer(std::move(parts)).prepare(),
                    Contains("save_best: there is no metrics/eval/Top1") &&
                        Contains("metrics/eval/CrossEntropy"));
}

TEST_CASE("save_best and early_stopper refuse a metric in the same words", "[save_best]") {
  check_is_evaluated("key", "metrics/eval/Accuracy", ClassificationMetrics::names(2));
  check_is_evaluated("key", "metrics/eval/Top5Accuracy", ClassificationMetrics::names(6));
  for (const auto& [metric, classes] :
       {std::pair{"metrics/eval/Top5Accuracy", 5}, std::pair{"Accuracy", 2}})
    CHECK_THROWS_WITH(check_is_evaluated("key", metric, ClassificationMetrics::names(classes)),
                      std::string("key: there is no ") + metric +
                          "; the evaluation gives metrics/eval/Accuracy, "
                          "metrics/eval/CrossEntropy");
}

TEST_CASE("a trainer tells where the weights come from that it loaded", "[fine_tuning]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.class_names = {"cat", "dog"};
  Trainer first(std::move(parts));
  first.fit();
  CHECK(first.loaded().class_names.empty());
  auto use = tiny_parts();
  use.train_loader = nullptr;
  use.optimizer = nullptr;
  use.options.load_path = (first.folder().checkpoints() / "latest").string();
  Trainer trainer(std::move(use));
  trainer.prepare();
  CHECK(trainer.loaded().class_names == std::vector<std::string>{"cat", "dog"});
}

TEST_CASE("best_metrics say at which batch", "[save_best]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  Trainer trainer(std::move(parts));
  trainer.fit();
  std::ifstream file(folder / "run" / "summary.json");
  const auto best = nlohmann::json::parse(file)["best_metrics"];
  CHECK(best["metrics/eval/Accuracy"]["batch"].get<int64_t>() % 4 == 0);
  CHECK(best["loss/train"]["value"].get<double>() > 0);
}

namespace {

/// Moves a weight when the run ends.
class AtTheEnd : public Algorithm {
 public:
  void fit_end(State& state) override {
    const at::NoGradGuard no_grad;
    state.model->parameters()[0].fill_(42);
  }
};

}  // namespace

TEST_CASE("what an algorithm changes at fit_end is in the last checkpoint", "[trainer]") {
  const TemporaryFolder folder;
  Trainer trainer(parts_in(folder));
  trainer.add<AtTheEnd>("at_the_end");
  trainer.fit();
  const auto checkpoint = load_checkpoint(folder / "run" / "checkpoints" / "latest");
  CHECK(checkpoint.time.batch == 8);
  CHECK(checkpoint.model.at("conv.weight").eq(42).all().item<bool>());
}

}  // namespace composer::fine_tuning_test
