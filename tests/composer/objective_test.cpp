// Losses and metrics of classes with weights, of labels that hold or not, and of numbers.
#include "nn/network/objective.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "base/error.h"
#include "nn/network/metrics.h"
#include "tests/ranks.h"
#include "tiny_run.h"

namespace composer::objective_test {

using Catch::Matchers::Contains;

namespace {

at::Tensor logits() {
  return at::tensor({1.0F, 2.0F, 0.5F, 0.0F, -1.0F, 3.0F, 2.0F, 0.0F, 1.0F}).view({3, 3});
}

Target of_classes(std::vector<int64_t> classes) {
  Target target;
  target.classes = at::tensor(classes);
  return target;
}

Target of_values(std::vector<float> values, int64_t each) {
  Target target;
  target.values = at::tensor(values).view({-1, each});
  return target;
}

std::map<std::string, double> all_of(const EvaluationMetrics& metrics) {
  std::map<std::string, double> values;
  for (const auto& [name, value] : metrics.compute()) values[name] = value;
  return values;
}

/// A loader whose targets are the mean brightness of each image and its half.
class BrightnessLoader final : public TinyLoader {
 public:
  using TinyLoader::TinyLoader;
  std::optional<RawBatch> next() override {
    auto batch = TinyLoader::next();
    if (!batch) return batch;
    const auto mean = batch->images.to(at::kFloat).mean(c10::IntArrayRef{1, 2, 3}) / 255;
    batch->target = {};
    batch->target.values = at::stack({mean, mean / 2}, 1);
    return batch;
  }
};

}  // namespace

TEST_CASE("weights of classes multiply the losses of their samples", "[objective]") {
  const std::vector<double> weights{0.5, 2, 3};
  const auto objective = make_objective("auto", weights, 3);
  auto target = of_classes({1, 0, 2});
  const auto each = -logits().log_softmax(1);
  const double expected = (2 * each[0][1].item<double>() + 0.5 * each[1][0].item<double>() +
                           3 * each[2][2].item<double>()) /
                          3;
  CHECK(objective->loss(logits(), target, Over::batch).item<double>() == Approx(expected));
  const auto by_sample = objective->loss(logits(), target, Over::sample);
  CHECK(by_sample.mean().item<double>() == Approx(expected));
  SECTION("in whatever parts the batch is split") {
    const auto first = objective->loss(logits().slice(0, 0, 1), target.slice(0, 1), Over::batch);
    const auto rest = objective->loss(logits().slice(0, 1, 3), target.slice(1, 3), Over::batch);
    CHECK((first.item<double>() + 2 * rest.item<double>()) / 3 == Approx(expected));
  }
  SECTION("of both labels of a mixed target, each in its share") {
    target.other_classes = at::tensor({0L, 0L, 0L});
    target.other_weight = at::tensor({0.25F, 0.0F, 1.0F});
    const double mixed =
        (0.75 * 2 * each[0][1].item<double>() + 0.25 * 0.5 * each[0][0].item<double>() +
         0.5 * each[1][0].item<double>() + 0.5 * each[2][0].item<double>()) /
        3;
    CHECK(objective->loss(logits(), target, Over::batch).item<double>() == Approx(mixed));
  }
}

TEST_CASE("losses of values are means over samples and outputs", "[objective]") {
  const auto target = of_values({1, 0, 0.5F, 0, 1, 1, 1, 0, 0}, 3);
  const auto values = target.values, x = logits();
  const auto expected = [&](const std::string& loss) {
    if (loss == "mse") return (x - values).square().mean().item<double>();
    if (loss == "l1") return (x - values).abs().mean().item<double>();
    return -(values * x.sigmoid().log() + (1 - values) * (1 - x.sigmoid()).log())
                .mean()
                .item<double>();
  };
  for (const std::string loss : {"mse", "l1", "binary_cross_entropy"}) {
    const auto objective = make_objective(loss, {}, 3);
    CHECK(objective->takes_values());
    CHECK(objective->loss(x, target, Over::batch).item<double>() == Approx(expected(loss)));
    CHECK(objective->loss(x, target, Over::sample).mean().item<double>() == Approx(expected(loss)));
    CHECK(objective->loss(x.to(at::kBFloat16), target, Over::batch).scalar_type() == at::kFloat);
  }
}

TEST_CASE("what is logged of training counts a mixed image as its heavier class", "[objective]") {
  Target target;
  target.classes = at::tensor({0, 1, 2}, at::kLong);
  target.other_classes = at::tensor({1, 0, 0}, at::kLong);
  target.other_weight = at::tensor({0.7, 0.2, 0.5});
  const auto outputs = at::eye(3).index_select(0, at::tensor({1, 1, 2}, at::kLong));
  CHECK(classification().running_sum(outputs, target).item<int64_t>() == 3);
}

TEST_CASE("a loss that does not fit is refused with what would", "[objective]") {
  CHECK(make_objective("auto", {}, 3) == nullptr);
  CHECK_THROWS_WITH(make_objective("mae", {}, 3), Contains("loss: must be auto, cross_entropy"));
  CHECK_THROWS_WITH(make_objective("mse", {1, 1, 1}, 3), Contains("class_weights: loss: mse"));
  CHECK_THROWS_WITH(make_objective("auto", {1, 1}, 3), Contains("2 weights, and 3 classes"));
  for (const double value : {-0.5, 80.0, std::nan("")}) {
    Target target;
    target.values = at::full({3, 3}, value, at::kFloat);
    const auto labels = make_objective("binary_cross_entropy", {}, 3);
    CHECK_THROWS_WITH(labels->check(target), Contains("targets from 0 to 1"));
    CHECK_THROWS_AS(labels->check(target), UserError);
  }
}

// The numbers are scikit-learn's average_precision_score of these.
TEST_CASE("average precision as scikit-learn has it", "[objective]") {
  const auto precision = [](std::vector<float> scores, std::vector<float> holds) {
    return average_precision(at::tensor(scores), at::tensor(holds));
  };
  CHECK(precision({0.1F, 0.4F, 0.35F, 0.8F}, {0, 0, 1, 1}) == Approx(0.8333333333));
  CHECK(precision({0.5F, 0.5F, 0.5F}, {1, 0, 1}) == Approx(2.0 / 3));
  CHECK(precision({3, 2, 1}, {1, 1, 0}) == Approx(1));
  CHECK(std::isnan(precision({3, 2, 1}, {0, 0, 0})));
}

TEST_CASE("metrics of labels leave out labels that never hold", "[objective]") {
  LabelMetrics metrics;
  metrics.update(logits().slice(0, 0, 2), of_values({1, 0, 0, 0, 0, 1}, 3));
  metrics.update(logits().slice(0, 2, 3), of_values({1, 0, 0}, 3));
  const auto values = all_of(metrics);
  CHECK(values.at("mAP") == Approx(1));
  CHECK(values.at("Accuracy") == Approx(6.0 / 9));
  const auto target = of_values({1, 0, 0, 0, 0, 1, 1, 0, 0}, 3);
  CHECK(values.at("BinaryCrossEntropy") == Approx(make_objective("binary_cross_entropy", {}, 3)
                                                      ->loss(logits(), target, Over::batch)
                                                      .item<double>()));
  CHECK(std::isnan(all_of(LabelMetrics()).at("mAP")));
}

// The example of scikit-learn's r2_score.
TEST_CASE("metrics of numbers as scikit-learn has them", "[objective]") {
  RegressionMetrics metrics(1);
  metrics.update(at::tensor({2.5F, 0.0F}).view({2, 1}), of_values({3, -0.5F}, 1));
  metrics.update(at::tensor({2.0F, 8.0F}).view({2, 1}), of_values({2, 7}, 1));
  const auto values = all_of(metrics);
  CHECK(values.at("MAE") == Approx(0.5));
  CHECK(values.at("MSE") == Approx(0.375));
  CHECK(values.at("R2") == Approx(0.9486081370));

  // Outputs that are always the same count as 1 when they are met, else as 0.
  RegressionMetrics constant(3);
  constant.update(at::tensor({2.5F, 0.1F, 7.0F, 0.0F, 0.1F, 7.0F}).view({2, 3}),
                  of_values({3, 0.1F, 8, -0.5F, 0.1F, 8}, 3));
  constant.update(at::tensor({2.0F, 0.1F, 7.0F, 8.0F, 0.1F, 7.0F}).view({2, 3}),
                  of_values({2, 0.1F, 8, 7, 0.1F, 8}, 3));
  CHECK(all_of(constant).at("R2") == Approx((0.9486081370 + 1 + 0) / 3));
}

TEST_CASE("metrics of values are those of all ranks", "[objective][ranks]") {
  const auto x = logits().slice(1, 0, 2).contiguous();
  const auto target = of_values({1, 0, 0, 1, 1, 1}, 2);
  LabelMetrics labels_of_all;
  labels_of_all.update(x, target);
  RegressionMetrics numbers_of_all(2);
  numbers_of_all.update(x, target);
  std::map<std::string, double> summed;
  test::in_ranks(3, [&](const Ranks& ranks) {  // the last one has seen nothing
    LabelMetrics labels;
    RegressionMetrics numbers(2);
    if (ranks.rank() < 2) {
      const int64_t begin = ranks.rank() == 0 ? 0 : 1, end = ranks.rank() == 0 ? 1 : 3;
      labels.update(x.slice(0, begin, end), target.slice(begin, end));
      numbers.update(x.slice(0, begin, end), target.slice(begin, end));
    }
    labels.sum(ranks, at::kCPU);
    numbers.sum(ranks, at::kCPU);
    if (!ranks.first()) return;
    summed = all_of(labels);
    summed.merge(all_of(numbers));
  });
  auto expected = all_of(labels_of_all);
  expected.merge(all_of(numbers_of_all));
  REQUIRE(summed.size() == expected.size());
  for (const auto& [name, value] : expected) CHECK(summed.at(name) == Approx(value));
}

TEST_CASE("a network learns numbers, and its metrics are those of numbers", "[objective]") {
  const auto run = [](int64_t microbatches) {
    auto parts = tiny_parts();
    parts.model->set_objective(make_objective("mse", {}, 2));
    parts.train_loader = std::make_shared<BrightnessLoader>(32, 8);
    parts.eval_loader = std::make_shared<BrightnessLoader>(16, 8);
    parts.options.grad_accum = microbatches;
    parts.options.max_duration = {30, TimeUnit::epoch};
    Trainer trainer(std::move(parts));
    const auto summary = trainer.fit();
    return std::pair(summary.metrics, weights_of(trainer));
  };
  const auto [metrics, weights] = run(1);
  CHECK(metrics.at("metrics/eval/MAE") < 0.05);
  CHECK(metrics.at("metrics/eval/R2") > 0.8);
  CHECK(metrics.contains("metrics/train/MAE"));
  CHECK(!metrics.contains("metrics/eval/Accuracy"));
  CHECK(at::allclose(run(2).second, weights, 1e-4, 1e-5));
}

TEST_CASE("a monitor of another kind of target is refused before the run", "[objective]") {
  auto parts = tiny_parts();
  parts.model->set_objective(make_objective("mse", {}, 2));
  parts.train_loader = std::make_shared<BrightnessLoader>(32, 8);
  parts.eval_loader = std::make_shared<BrightnessLoader>(16, 8);
  parts.options.save_best = "metrics/eval/Accuracy";
  CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(), Contains("metrics/eval/R2"));
}

}  // namespace composer::objective_test
