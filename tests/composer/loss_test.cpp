#include "nn/network/loss.h"

#include <catch2/catch.hpp>

#include "nn/network/metrics.h"

namespace composer::loss_test {
namespace {

at::Tensor logits() { return at::tensor({1.0F, 2.0F, 0.5F, 0.0F, -1.0F, 3.0F}).view({2, 3}); }

// -log softmax by hand: row 0: log(e + e^2 + e^0.5) = 2.46436, row 1: log(1 + e^-1 + e^3) = 3.06588
constexpr double log_sum[2] = {2.4643688, 3.0658790};

TEST_CASE("cross-entropy of class indices", "[loss]") {
  const Target target{.classes = at::tensor({1L, 0L}), .other_classes = {}, .other_weight = {}};
  const double expected = ((log_sum[0] - 2) + (log_sum[1] - 0)) / 2;
  CHECK(soft_cross_entropy(logits(), target).item<double>() == Approx(expected));
}

TEST_CASE("label smoothing spreads its share over all classes", "[loss]") {
  const Target target{
      .classes = at::tensor({1L, 0L}), .other_classes = {}, .other_weight = {}, .smoothing = 0.3};
  const double uniform = (3 * log_sum[0] - 3.5 + 3 * log_sum[1] - 2) / 3 / 2;
  const double hard = ((log_sum[0] - 2) + (log_sum[1] - 0)) / 2;
  CHECK(soft_cross_entropy(logits(), target).item<double>() == Approx(0.7 * hard + 0.3 * uniform));
}

TEST_CASE("every form of target gives the loss of its dense form, with gradients", "[loss]") {
  const bool mixed = GENERATE(false, true);
  const double smoothing = GENERATE(0.0, 0.2);
  Target target{.classes = at::tensor({1L, 0L}), .other_classes = {}, .other_weight = {}};
  target.smoothing = smoothing;
  if (mixed) {
    target.other_classes = at::tensor({2L, 2L});
    target.other_weight = at::tensor({0.25F, 0.9F});
  }
  auto x = logits().requires_grad_(true), y = logits().requires_grad_(true);
  const auto loss = soft_cross_entropy(x, target);
  const auto expected = -(target.dense(3) * y.log_softmax(1)).sum(1).mean();
  loss.backward();
  expected.backward();
  CHECK(loss.item<double>() == Approx(expected.item<double>()));
  CHECK(at::allclose(x.grad(), y.grad(), 1e-5, 1e-7));
}

TEST_CASE("binary cross-entropy is summed over classes and divided by samples", "[loss]") {
  const Target target{.classes = at::tensor({1L, 0L}), .other_classes = {}, .other_weight = {}};
  const auto positive = [](double x) { return std::log1p(std::exp(-x)); };
  const auto negative = [](double x) { return std::log1p(std::exp(x)); };
  const double expected =
      (negative(1) + positive(2) + negative(0.5) + positive(0) + negative(-1) + negative(3)) / 2;
  CHECK(binary_cross_entropy_with_logits(logits(), target).item<double>() == Approx(expected));
}

TEST_CASE("losses of half-precision logits are computed in float32", "[loss]") {
  const Target target{.classes = at::tensor({1L, 0L}), .other_classes = {}, .other_weight = {}};
  const auto half = logits().to(at::kBFloat16);
  CHECK(soft_cross_entropy(half, target).scalar_type() == at::kFloat);
  CHECK(binary_cross_entropy_with_logits(half, target).scalar_type() == at::kFloat);
}

TEST_CASE("metrics weight a short batch by its samples", "[metrics]") {
  ClassificationMetrics metrics(3);
  const Target first{.classes = at::tensor({1L, 0L}), .other_classes = {}, .other_weight = {}};
  metrics.update(logits(), first);
  metrics.update(logits().slice(0, 1, 2),
                 {.classes = at::tensor({2L}), .other_classes = {}, .other_weight = {}});
  const auto values = metrics.compute();
  REQUIRE(values.size() == 2);
  CHECK(values[0].first == "Accuracy");
  CHECK(values[0].second == Approx(2.0 / 3));
  CHECK(values[1].first == "CrossEntropy");
  CHECK(values[1].second == Approx(((log_sum[0] - 2) + (log_sum[1] - 0) + (log_sum[1] - 3)) / 3));

  metrics.reset();
  metrics.update(logits(), first);
  CHECK(metrics.compute()[0].second == Approx(0.5));
}

TEST_CASE("Top5Accuracy appears with more than five classes", "[metrics]") {
  ClassificationMetrics metrics(7);
  const auto scores = at::arange(7, at::kFloat).repeat({3, 1});
  metrics.update(scores,
                 {.classes = at::tensor({6L, 2L, 1L}), .other_classes = {}, .other_weight = {}});
  const auto values = metrics.compute();
  REQUIRE(values.size() == 3);
  CHECK(values[0].second == Approx(1.0 / 3));
  CHECK(values[1].first == "Top5Accuracy");
  CHECK(values[1].second == Approx(2.0 / 3));
}

TEST_CASE("a mixed target counts as its heavier class, without smoothing", "[metrics]") {
  ClassificationMetrics metrics(3);
  const Target target{.classes = at::tensor({0L, 2L}),
                      .other_classes = at::tensor({1L, 0L}),
                      .other_weight = at::tensor({0.8F, 0.1F}),
                      .smoothing = 0.5};
  metrics.update(logits(), target);
  CHECK(metrics.compute()[0].second == Approx(1.0));
  CHECK(metrics.compute()[1].second ==
        Approx((log_sum[0] - (0.2 * 1 + 0.8 * 2) + log_sum[1] - (0.9 * 3 + 0.1 * 0)) / 2));
}

TEST_CASE("metrics of no samples are not numbers", "[metrics]") {
  CHECK(std::isnan(ClassificationMetrics(3).compute()[0].second));
}

}  // namespace
}  // namespace composer::loss_test
