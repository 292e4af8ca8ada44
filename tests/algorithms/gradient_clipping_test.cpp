#include "algorithms/gradient_clipping.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "nn/optimization/optimizers.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::gradient_clipping_test {

using test::Fixture;

namespace {

at::Tensor parameter(const at::Tensor& values, const at::Tensor& gradient) {
  auto made = values.clone().requires_grad_();
  made.mutable_grad() = gradient.clone();
  return made;
}

at::Tensor rows(std::vector<float> values) { return at::tensor(values).view({-1, 2}); }

}  // namespace

TEST_CASE("clip_gradients by norm scales all gradients alike", "[gradient_clipping]") {
  const auto a = parameter(at::ones({2}), at::tensor({3.f, 0.f}));
  const auto b = parameter(at::ones({1, 2}), rows({0, 4}));
  const auto idle = at::ones({3}).requires_grad_();
  clip_gradients({a, idle, b}, "norm", 10);
  CHECK(at::equal(a.grad(), at::tensor({3.f, 0.f})));
  clip_gradients({a, idle, b}, "norm", 1);
  CHECK(at::allclose(a.grad(), at::tensor({0.6f, 0.f})));
  CHECK(at::allclose(b.grad(), rows({0, 0.8f})));
  CHECK_FALSE(idle.grad().defined());
}

TEST_CASE("clip_gradients by value bounds each element", "[gradient_clipping]") {
  const auto a = parameter(at::ones({3}), at::tensor({-3.f, 0.25f, 7.f}));
  clip_gradients({a}, "value", 0.5);
  CHECK(at::equal(a.grad(), at::tensor({-0.5f, 0.25f, 0.5f})));
}

TEST_CASE("clip_gradients adaptively bounds each unit by its weights", "[gradient_clipping]") {
  // Rows: clipped by 0.1 * 5 / 10; left alone; no gradient; no weights, which count as 1e-3.
  const auto matrix = parameter(rows({3, 4, 30, 40, 1, 1, 0, 0}), rows({6, 8, 3, 4, 0, 0, 1, 1}));
  const auto filters = parameter(at::full({1, 2, 1, 2}, 2.f), at::full({1, 2, 1, 2}, 4.f));
  const auto vector = parameter(at::tensor({0.f, 5.f}), at::tensor({0.6f, 0.8f}));
  const auto scalar = parameter(at::scalar_tensor(2.f), at::scalar_tensor(-8.f));
  const auto zero = parameter(at::zeros({2}), at::zeros({2}));
  clip_gradients({vector, matrix, scalar, filters, zero}, "adaptive", 0.1);
  CHECK(at::allclose(matrix.grad(), rows({0.3f, 0.4f, 3, 4, 0, 0, 7.0711e-5f, 7.0711e-5f})));
  CHECK(at::allclose(filters.grad(), at::full({1, 2, 1, 2}, 0.2f)));
  CHECK(at::allclose(vector.grad(), at::tensor({0.3f, 0.4f})));
  CHECK(scalar.grad().item<float>() == Approx(-0.2));
  CHECK(at::equal(zero.grad(), at::zeros({2})));
}

TEST_CASE("clip_gradients takes no other type and no gradients at all", "[gradient_clipping]") {
  const auto a = parameter(at::ones({3}), at::ones({3}));
  CHECK_THROWS_AS(clip_gradients({a}, "agc", 1), UserError);
  for (const char* type : {"norm", "value", "adaptive"}) clip_gradients({at::ones({2})}, type, 1);
}

TEST_CASE("gradient_clipping bounds the optimizer's step", "[gradient_clipping]") {
  Fixture f;
  SgdParams sgd;
  sgd.lr = 1;
  f.state.optimizer = std::make_shared<Sgd>(sgd);
  f.state.optimizer->attach(*f.state.model);
  f.state.model->loss(f.state.model->forward(f.state.batch.input), f.state.batch.target).backward();
  GradientClipping({.clipping_type = "norm", .clipping_threshold = 0.01})
      .after_train_batch(f.state);
  double squares = 0;
  for (const auto& gradient : f.state.optimizer->gradients())
    squares += gradient.square().sum().item<double>();
  CHECK(std::sqrt(squares) == Approx(0.01).epsilon(1e-3));
}

}  // namespace composer::gradient_clipping_test
