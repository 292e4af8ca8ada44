// Callbacks that watch a run, in small ones.
#include "composer/callbacks/callbacks.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"
#include "composer/callbacks/monitors.h"
#include "nn/network/normalize.h"
#include "nn/optimization/gradient_norm.h"
#include "tests/composer/terminal.h"
#include "tests/composer/tiny_run.h"

namespace composer::callbacks_test {

using Catch::Contains;

namespace {

/// All that is logged; read after the run.
class Everything : public LogSink {
 public:
  void write(const Record& record) override { records.push_back(record); }
  void write_images(const ImageRecord& record) override { images.push_back(record); }

  /// Batch -> value.
  std::map<int64_t, double> values(const std::string& wanted) const {
    std::map<int64_t, double> found;
    for (const auto& record : records)
      for (const auto& [name, value] : record.values)
        if (name == wanted) found[record.time.batch] = value;
    return found;
  }

  std::vector<Record> records;
  std::vector<ImageRecord> images;
};

struct Watched {
  std::shared_ptr<Everything> log = std::make_shared<Everything>();
  TrainerParts parts = tiny_parts();
  Watched() { parts.loggers.push_back(log), parts.console = false; }
};

/// The norms just before the optimizer takes its step.
class AtTheStep : public Callback {
 public:
  explicit AtTheStep(std::vector<double>& norms) : norms_(norms) {}
  void after_train_batch(const State& state, Logger&, RunControl&) override {
    norms_.push_back(global_norm(state.optimizer->gradients()).item<double>());
  }

 private:
  std::vector<double>& norms_;
};

std::vector<int64_t> batches_of(const std::map<int64_t, double>& values) {
  std::vector<int64_t> batches;
  for (const auto& value : values) batches.push_back(value.first);
  return batches;
}

}  // namespace

TEST_CASE("memory_monitor tells what the process has in memory", "[callbacks]") {
  Watched run;
  Trainer trainer(std::move(run.parts));
  trainer.add<MemoryMonitor>("memory_monitor", MemoryMonitor::Params{{4, TimeUnit::batch}});
  trainer.fit();
  const auto resident = run.log->values("memory/rss"), peak = run.log->values("memory/peak_rss");
  CHECK(batches_of(resident) == std::vector<int64_t>{4, 8});
  for (const auto& [batch, bytes] : resident) {
    CHECK(bytes > 10e6);
    CHECK(peak.at(batch) >= bytes * 0.9);
  }
}

TEST_CASE("gradient_monitor logs the norms that the step was taken with", "[callbacks]") {
  Watched run;
  run.parts.options.grad_clip_norm = 0.05;
  Trainer trainer(std::move(run.parts));
  std::vector<double> norms;
  trainer.add<AtTheStep>("norms", norms);
  trainer.add<GradientMonitor>("gradient_monitor", GradientMonitor::Params{{2, TimeUnit::batch}});
  trainer.fit();
  const auto all = run.log->values("grad_l2_norm/step");
  const auto conv = run.log->values("layer_grad_l2_norm/conv"),
             fc = run.log->values("layer_grad_l2_norm/fc");
  CHECK(batches_of(all) == std::vector<int64_t>{2, 4, 6, 8});
  for (const auto& [batch, norm] : all) {
    CHECK(norm == Approx(norms.at(static_cast<size_t>(batch - 1))));
    CHECK(norm == Approx(std::hypot(conv.at(batch), fc.at(batch))));
    CHECK(norm < 0.0501);
  }
}

TEST_CASE("gradient_monitor's groups are the first parts of names", "[callbacks]") {
  CHECK(parameter_group("layer1.0.conv1.weight", 1) == "layer1");
  CHECK(parameter_group("layer1.0.conv1.weight", 2) == "layer1.0");
  CHECK(parameter_group("layer1.0.conv1.weight", 9) == "layer1.0.conv1");
  CHECK(parameter_group("fc.bias", 1) == "fc");
  CHECK(parameter_group("scale", 1) == "scale");
}

TEST_CASE("runtime_estimator's seconds run out", "[callbacks]") {
  Watched run;
  Trainer trainer(std::move(run.parts));
  trainer.add<RuntimeEstimator>("runtime_estimator", RuntimeEstimator::Params{});
  trainer.fit();
  const auto left = run.log->values("wall_clock/remaining_estimate");
  CHECK(batches_of(left) == std::vector<int64_t>{2, 3, 4, 5, 6, 7, 8});
  CHECK(left.at(2) > 0);
  CHECK(left.at(8) == 0);
}

TEST_CASE("threshold_stopper ends a run that is good enough, and keeps it ended", "[callbacks]") {
  const TemporaryFolder folder;
  const auto batches = [&](const std::string& monitor, double threshold, bool resume = false) {
    Watched run;
    run.parts.options.max_duration = {3, TimeUnit::epoch};
    run.parts.options.run_dir = folder.path().string();
    run.parts.options.run_name = monitor.substr(monitor.rfind('/') + 1) + std::to_string(threshold);
    run.parts.options.autoresume = resume;
    Trainer trainer(std::move(run.parts));
    trainer.add<ThresholdStopper>("threshold_stopper",
                                  ThresholdStopper::Params{monitor, threshold});
    return trainer.fit().time.batch;
  };
  CHECK(batches("metrics/eval/Accuracy", 0) == 4);
  CHECK(batches("metrics/eval/Accuracy", 0, /*resume=*/true) == 4);
  CHECK(batches("metrics/eval/Accuracy", 1.01) == 12);
  CHECK(batches("metrics/eval/CrossEntropy", 1000) == 4);
  CHECK(batches("metrics/eval/CrossEntropy", 0) == 12);
  CHECK_THROWS_AS(batches("metrics/eval/Nonsense", 0), UserError);
  CHECK_THAT((ThresholdStopper::Params{"loss/train", 1}.check()), Contains("not 'loss/train'"));
  CHECK_THAT((ThresholdStopper::Params{"metrics/eval/Accuracy", 94}.check()),
             Contains("threshold: must be in [0, 1]") && Contains("94 % is 0.94"));
  CHECK((ThresholdStopper::Params{"metrics/eval/MAE", 94}.check()).empty());
  CHECK_FALSE(std::filesystem::exists(folder / ("Nonsense" + std::to_string(0.0))));
}

TEST_CASE("image_monitor shows the first batch as the network gets it", "[callbacks]") {
  Watched run;
  run.parts.class_names = {"dark", "bright"};
  TinyLoader loader(32, 8);
  loader.start(0, 0, {});
  const auto first = loader.next()->images;
  Trainer trainer(std::move(run.parts));
  trainer.add<ImageMonitor>("image_monitor", ImageMonitor::Params{5, {1, TimeUnit::epoch}});
  trainer.fit();
  REQUIRE(run.log->images.size() == 2);
  const auto& [name, time, images] = run.log->images[0];
  CHECK(name == "images/train");
  CHECK(time.batch == 1);
  CHECK(run.log->images[1].time.batch == 5);
  REQUIRE(images.size() == 5);
  CHECK(images[1].caption == "bright");
  CHECK(images[4].caption == "dark");
  const auto* bytes = first[1].const_data_ptr<uint8_t>();
  CHECK(images[1].pixels == std::vector<uint8_t>(bytes, bytes + 192));
}

TEST_CASE("what is normalised comes back, and what is out of range is clamped", "[callbacks]") {
  const Normalization normalization{{125.3, 123, 113.9}, {63, 62.1, 66.7}};
  const auto images = at::randint(0, 256, {2, 5, 4, 3}, at::kByte);
  auto input = normalize(images, normalization, at::MemoryFormat::ChannelsLast);
  CHECK(at::equal(denormalize(input, normalization), images));
  CHECK(denormalize(input + 100, normalization).min().item<int64_t>() == 255);
}

TEST_CASE("captions of mixed labels name both", "[callbacks]") {
  Target target;
  target.classes = at::tensor({int64_t{0}, int64_t{2}});
  CHECK(label_texts(target, {"cat", "dog"}) == std::vector<std::string>{"cat", "2"});
  target.other_classes = at::tensor({int64_t{1}, int64_t{0}});
  target.other_weight = at::tensor({0.3f, 0.0f});
  CHECK(label_texts(target, {"cat", "dog"}) == std::vector<std::string>{"cat 0.70, dog 0.30", "2"});
}

}  // namespace composer::callbacks_test
