#include "algorithms/label_smoothing.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "nn/network/loss.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::label_smoothing_test {

using test::Fixture;

namespace {

at::Tensor rows(std::vector<float> values) { return at::tensor(values).view({-1, 4}); }

}  // namespace

TEST_CASE("smooth_labels takes class indices and probabilities", "[label_smoothing]") {
  const auto logits = at::randn({2, 4});
  const auto expected = rows({.05f, .05f, .85f, .05f, .85f, .05f, .05f, .05f});
  CHECK(at::allclose(smooth_labels(logits, at::tensor({2, 0}), 0.2), expected));
  CHECK(at::allclose(smooth_labels(logits, rows({0, 0, 1, 0, 1, 0, 0, 0}), 0.2), expected));
  CHECK(at::allclose(smooth_labels(logits, at::tensor({2, -1}), 0.2),
                     rows({.05f, .05f, .85f, .05f, .05f, .05f, .05f, .05f})));
  CHECK(smooth_labels(at::randn({2, 4, 3, 3}), at::zeros({2, 3, 3}, at::kLong), 0.2).sizes() ==
        at::IntArrayRef{2, 4, 3, 3});
  CHECK_THROWS_WITH(smooth_labels(logits, at::zeros({2, 3}), 0.1), Catch::Contains("[2, 3]"));
}

TEST_CASE("label_smoothing smooths the loss only and composes", "[label_smoothing]") {
  Fixture f;
  LabelSmoothing smoothing({.smoothing = 0.2});
  const auto logits = at::randn({4, 5});
  const double plain = soft_cross_entropy(logits, f.state.batch.target).item<double>();

  for (const double already : {0.0, 0.5}) {
    f.state.batch.target.smoothing = already;
    smoothing.before_loss(f.state);
    const double smoothed = soft_cross_entropy(logits, f.state.batch.target).item<double>();
    auto dense = smooth_labels(logits, f.state.batch.target.classes, already);
    dense = smooth_labels(logits, dense, 0.2);
    const double expected = -(dense * logits.log_softmax(1)).sum(1).mean().item<double>();
    CHECK(smoothed == Approx(expected));
    CHECK(smoothed != Approx(plain));
    smoothing.after_loss(f.state);
    CHECK(f.state.batch.target.smoothing == already);
  }
}

}  // namespace composer::label_smoothing_test
