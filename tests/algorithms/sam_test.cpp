#include "algorithms/sam.h"

#include <catch2/catch.hpp>
#include <limits>

#include "algorithms/gradient_clipping.h"
#include "algorithms/label_smoothing.h"
#include "algorithms/mixup.h"
#include "algorithms/stochastic_depth.h"
#include "models/resnet_cifar.h"
#include "tests/composer/tiny_run.h"
#include "tests/gpu.h"

namespace composer::sam_test {

namespace {

using Tensors = std::vector<at::Tensor>;

Tensors copies(const Tensors& tensors) {
  Tensors made;
  for (const auto& tensor : tensors) made.push_back(tensor.detach().clone());
  return made;
}

bool equal(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return at::equal(x, y); });
}

Tensors gradients(const State& state) { return copies(state.optimizer->gradients()); }

/// tiny_parts() for `batches` batches without evaluation, with microbatches and, for `residual`,
/// ResNet-20.
TrainerParts parts_of(int64_t batches, int64_t grad_accum, bool residual = false) {
  auto parts = tiny_parts();
  parts.options.max_duration = {static_cast<double>(batches), TimeUnit::batch};
  parts.options.grad_accum = grad_accum;
  parts.eval_loader = nullptr;
  if (residual)
    parts.model = std::make_shared<ResNetCifar>(
        ResNetCifar::Params{.model_name = "resnet_20", .num_classes = 2, .initializers = {}});
  return parts;
}

at::Tensor weights_after(TrainerParts parts, std::optional<Sam::Params> sam) {
  Trainer trainer(std::move(parts));
  if (sam) trainer.add<Sam>("sam", *sam);
  trainer.fit();
  return weights_of(trainer);
}

/// The gradients of each pass of the last batch, and how often its forward event fired.
class Probe : public Algorithm {
 public:
  struct Seen {
    Tensors first, second;
    int64_t forwards = 0;
  };
  explicit Probe(Seen& seen) : seen_(seen) {}
  void before_forward(State&) override { ++seen_.forwards; }
  void after_backward(State& state) override { seen_.first = gradients(state); }
  void after_train_batch(State& state) override { seen_.second = gradients(state); }

 private:
  Seen& seen_;
};

class InfiniteLoss : public Algorithm {
 public:
  void before_backward(State& state) override {
    state.loss = state.loss * std::numeric_limits<float>::infinity();
  }
};

constexpr double no_distance = 1e-30;

}  // namespace

TEST_CASE("sam_gradients takes the gradients at w + rho * g / |g|", "[sam][gpu]") {
  for (const auto device : test::devices()) {
    const auto a = at::tensor({3.f}).to(device).requires_grad_();
    const auto b = at::tensor({4.f, 0.f}).to(device).requires_grad_();
    const auto idle = at::ones({2}, device).requires_grad_();
    const auto count = at::zeros({}, at::TensorOptions(device).dtype(at::kLong));
    const auto half_of_squares = [&] {
      a.mutable_grad().reset(), b.mutable_grad().reset();
      count.add_(1);
      ((a * a).sum() / 2 + (b * b).sum() / 2).backward();
    };
    half_of_squares();
    sam_gradients({a, idle, b}, {count}, 0.05, 1e-12, half_of_squares);
    CHECK(at::allclose(a.grad().cpu(), at::tensor({3.03f})));
    CHECK(at::allclose(b.grad().cpu(), at::tensor({4.04f, 0.f})));
    CHECK(at::equal(a.detach().cpu(), at::tensor({3.f})));
    CHECK(at::equal(b.detach().cpu(), at::tensor({4.f, 0.f})));
    CHECK_FALSE(idle.grad().defined());
    CHECK(count.item<int64_t>() == 1);
  }
}

TEST_CASE("three steps with sam equal PyTorch's", "[sam]") {
  const Tensors weights{
      (at::arange(6, at::kFloat) * 0.1 - 0.2).view({2, 3}).contiguous().requires_grad_(),
      at::tensor({0.1f, -0.1f}).requires_grad_(),
      at::tensor({0.5f, -0.4f, 0.3f, 0.2f}).view({2, 2}).requires_grad_()};
  const auto x = at::tensor({1.f, 2.f, 3.f, -1.f, 0.5f, 2.f}).view({2, 3});
  const auto compute = [&] {
    for (const auto& weight : weights) weight.mutable_grad().reset();
    const auto hidden = at::linear(x, weights[0], weights[1]).tanh();
    at::cross_entropy_loss(at::linear(hidden, weights[2]), at::tensor({0L, 1L})).backward();
  };
  for (int step = 0; step < 3; ++step) {
    compute();
    sam_gradients(weights, {}, 0.1, 1e-12, compute);
    const at::NoGradGuard no_grad;
    for (const auto& weight : weights) weight.sub_(weight.grad(), 0.5);
  }
  // torch 2.11: autograd at w, w + 0.1 * g / |g| for each step, then w - 0.5 * g.
  const auto expected =
      at::tensor({-0.11670434f, -0.02228415f, 0.07213606f, -0.08912167f, 0.13992219f, 0.36896604f,
                  0.11219529f, -0.03458925f, 0.37303981f, -0.17231542f, 0.42696020f, -0.02768461f});
  const auto found = at::cat({weights[0].flatten(), weights[1], weights[2].flatten()}).detach();
  CHECK(at::allclose(found, expected, 1e-5, 1e-6));
}

TEST_CASE("every interval-th batch is taken twice", "[sam]") {
  const auto plain = [](int64_t batches) {
    return weights_after(parts_of(batches, 1), std::nullopt);
  };
  const auto with_sam = [](int64_t batches) {
    return weights_after(parts_of(batches, 1), Sam::Params{.rho = 1, .interval = 2});
  };
  CHECK(at::equal(with_sam(1), plain(1)));
  CHECK_FALSE(at::allclose(with_sam(2), plain(2)));
}

TEST_CASE("a resumed run takes the same batches twice", "[sam][resume]") {
  const TemporaryFolder folder;
  const auto run = [&](int64_t batches) {
    auto parts = parts_of(batches, 1);
    parts.options.run_dir = folder.path().string();
    parts.options.run_name = "run";
    parts.options.autoresume = true;
    return weights_after(std::move(parts), Sam::Params{.rho = 1, .interval = 2});
  };
  run(3);
  CHECK(at::equal(run(6), weights_after(parts_of(6, 1), Sam::Params{.rho = 1, .interval = 2})));
}

TEST_CASE("microbatches do not change sam's step", "[sam]") {
  const auto with = [](int64_t grad_accum) {
    return weights_after(parts_of(4, grad_accum), Sam::Params{.rho = 0.5});
  };
  CHECK(at::allclose(with(2), with(1), 1e-4, 1e-5));
  CHECK_FALSE(at::allclose(with(1), weights_after(parts_of(4, 1), std::nullopt), 1e-3, 1e-4));
}

TEST_CASE("both passes have the same draws and labels, and no event fires twice", "[sam]") {
  Probe::Seen seen;
  Trainer trainer(parts_of(2, 2, true));
  trainer.add<Sam>("sam", Sam::Params{.rho = no_distance});
  trainer.add<Probe>("probe", seen);
  trainer.add<Mixup>("mixup", Mixup::Params{});
  trainer.add<LabelSmoothing>("label_smoothing", LabelSmoothing::Params{});
  StochasticDepth::Params depth;
  depth.stochastic_method = "sample";
  depth.drop_rate = 0.8;
  trainer.add<StochasticDepth>("stochastic_depth", depth);
  trainer.fit();
  CHECK(seen.forwards == 4);
  REQUIRE_FALSE(seen.first.empty());
  CHECK(equal(seen.first, seen.second));
}

TEST_CASE("batch norm counts each batch once", "[sam]") {
  const auto buffers = [](bool with_sam) {
    Trainer trainer(parts_of(3, 2, true));
    if (with_sam) trainer.add<Sam>("sam", Sam::Params{.rho = no_distance});
    trainer.fit();
    return copies(trainer.state().model->buffers());
  };
  const auto once = buffers(false);
  CHECK(equal(buffers(true), once));
  CHECK(once[2].item<int64_t>() == 6);
}

TEST_CASE("what is listed beside sam clips the gradients it made", "[sam]") {
  Trainer trainer(parts_of(1, 1));
  trainer.add<GradientClipping>("gradient_clipping", GradientClipping::Params{"norm", 1e-3});
  trainer.add<Sam>("sam", Sam::Params{});
  trainer.fit();
  CHECK(trainer.engine().order(Event::after_train_batch).front() == "sam");
  double squares = 0;
  for (const auto& gradient : trainer.state().optimizer->gradients())
    squares += gradient.square().sum().item<double>();
  CHECK(std::sqrt(squares) == Approx(1e-3).epsilon(1e-2));
}

TEST_CASE("a first pass that is not finite skips the step and harms no weight", "[sam]") {
  auto parts = parts_of(1, 2);
  parts.options.precision = "amp_fp16";
  Trainer trainer(std::move(parts));
  const auto before = weights_of(trainer);
  trainer.add<Sam>("sam", Sam::Params{});
  trainer.add<InfiniteLoss>("infinite_loss");
  trainer.fit();
  CHECK(at::equal(weights_of(trainer), before));
}

TEST_CASE("values of sam out of range are refused", "[sam]") {
  const auto problems = [](const std::string& key, const std::string& value) {
    Sam::Params params;
    auto given = Value::map();
    given.set(key, Value::scalar(value));
    Problems found;
    read_fields(given, collect(params), "sam", found);
    return found.size();
  };
  CHECK(problems("rho", "0") == 1);
  CHECK(problems("epsilon", "0") == 1);
  CHECK(problems("interval", "0") == 1);
}

}  // namespace composer::sam_test
