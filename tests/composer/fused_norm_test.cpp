#include "nn/network/fused_norm.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "nn/network/layers.h"
#include "nn/profiling/timer.h"
#include "saved_tensors.h"
#include "tests/composer/norm_case.h"
#include "tests/each_target.h"
#include "tests/gpu.h"

namespace composer::fused_norm_test {

using Catch::Matchers::Contains;

namespace {

bool is_fused(const Case& given) { return why_step_by_step(given.call).empty(); }

}  // namespace

TEST_CASE("fused batch norm is that of float64 to rounding", "[fused_norm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto format = GENERATE(nchw, nhwc);
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  at::manual_seed(3);
  for (const bool training : {true, false})
    for (const bool with_residual : {true, false})
      for (const int64_t channels : {1, 3, 7, 16, 24, 64, 130}) {
        CAPTURE(type, format, activation, training, with_residual, channels);
        const auto given =
            random_case({3, channels, 7, 5}, type, format, with_residual, activation, training);
        REQUIRE(is_fused(given));
        for (const int64_t target : test::targets()) {
          const test::OnlyTarget only(target);
          check(given);
        }
      }
}

TEST_CASE("fused batch norm adds up images of many parts", "[fused_norm]") {
  const auto [shape, format] =
      GENERATE(table<std::vector<int64_t>, at::MemoryFormat>({{{2, 16, 111, 93}, nhwc},
                                                              {{5, 7, 203, 51}, nhwc},
                                                              {{7, 2047, 5, 5}, nhwc},
                                                              {{260, 512, 1, 1}, nhwc},
                                                              {{2, 3, 301, 257}, nchw},
                                                              {{2, 200, 7, 7}, nchw}}));
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  CAPTURE(shape, type);
  at::manual_seed(4);
  check(random_case(shape, type, format, true, Activation::relu, true));
  check(random_case(shape, type, format, false, Activation::relu, true));
}

TEST_CASE("fused batch norm gives the same bits on any number of threads", "[fused_norm]") {
  const auto format = GENERATE(nchw, nhwc);
  const auto activation = GENERATE(Activation::relu, Activation::gelu);
  at::manual_seed(5);
  const auto given =
      random_case({4, 24, 96, 97}, at::kBFloat16, format, true, activation, /*training=*/true);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto alone = found(given);
  for (const int threads : {2, 3, 5}) {
    at::set_num_threads(threads);
    const auto shared = found(given);
    CHECK(at::equal(shared.output, alone.output));
    CHECK(at::equal(shared.mean, alone.mean));
    CHECK(at::equal(shared.variance, alone.variance));
    CHECK(at::equal(shared.input, alone.input));
    CHECK(at::equal(shared.residual, alone.residual));
    CHECK(at::equal(shared.weight, alone.weight));
    CHECK(at::equal(shared.bias, alone.bias));
  }
  at::set_num_threads(before);
}

TEST_CASE("fused batch norm keeps the digits of a channel far from 0", "[fused_norm]") {
  const auto format = GENERATE(nchw, nhwc);
  at::manual_seed(6);
  auto given = random_case({8, 16, 40, 40}, at::kFloat, format, false, Activation::none, true);
  given.call.input = (at::randn({8, 16, 40, 40}) + 1000).contiguous(format);
  given.call.input.select(1, 3).narrow(1, 0, 20).fill_(0);  // far from the mean of its first rows
  const auto fused = found(given), expected = found(in_double(given));
  CHECK(worst(fused.mean, expected.mean) < 1e-6);
  CHECK(((fused.variance.to(at::kDouble) - expected.variance) / expected.variance)
            .abs()
            .max()
            .item<double>() < 2e-6);
  // The mean itself rounds to 3e-5.
  CHECK((fused.output - expected.output).abs().max().item<double>() < 2e-4);
  CHECK(worst(fused.input, expected.input) < 1e-4);
  given.call.input.fill_(1000.1);
  const auto constant = found(given);
  CHECK(constant.variance.min().item<double>() >= 0);
  CHECK(at::isfinite(constant.output).all().item<bool>());
}

TEST_CASE("what ReLU cuts off has no gradient, down to the least numbers", "[fused_norm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const bool with_residual = GENERATE(true, false);
  at::manual_seed(7);
  auto given = random_case({4, 16, 9, 9}, type, nhwc, with_residual, Activation::relu, false);
  const float least = type == at::kFloat ? 0x1p-149F : 0x1p-133F;
  given.call.input = at::randint(-8, 9, {4, 16, 9, 9}).to(type).contiguous(nhwc);
  given.call.weight.fill_(least / 4), given.call.bias.zero_();
  given.call.running_mean.zero_(), given.call.running_var.fill_(1), given.call.options.eps = 0;
  if (type == at::kFloat) given.call.weight.fill_(least), given.call.input.clamp_(-2, 2);
  if (with_residual) given.call.residual.zero_();
  given.gradient.fill_(1);
  for (const int64_t target : test::targets()) {
    const test::OnlyTarget only(target);
    const auto all = found(given);
    const auto positive = (all.output > 0).to(at::kFloat).sum({0, 2, 3});
    CHECK(at::equal(all.bias, positive));
    CHECK(positive.min().item<float>() > 0);
  }
}

TEST_CASE("numbers that are none go through fused batch norm as through PyTorch's",
          "[fused_norm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  const bool training = GENERATE(true, false), with_residual = GENERATE(true, false);
  const float infinity = std::numeric_limits<float>::infinity();
  at::manual_seed(8);
  auto given = random_case({2, 5, 6, 7}, type, nhwc, with_residual, activation, training);
  given.call.input[0][0][1][1] = std::numeric_limits<float>::quiet_NaN();
  given.call.input[1][1][0][0] = infinity;
  given.call.input[1][2][0][0] = -infinity;
  given.call.input[1][3][0][0] = 1e38F;
  for (const int64_t target : test::targets()) {
    const test::OnlyTarget only(target);
    const auto fused = found(given);
    const Unfused step_by_step;
    const auto parts = found(given);
    const auto finite = [](const at::Tensor& images) { return at::isfinite(images); };
    CHECK(at::equal(at::isnan(fused.output), at::isnan(parts.output)));
    CHECK(at::equal(at::isinf(fused.output), at::isinf(parts.output)));
    if (activation == Activation::relu)  // where the output is NaN, the gradient goes through
      CHECK(at::equal(finite(fused.bias), finite(parts.bias)));
    if (!training) CHECK(at::equal(fused.input == 0, parts.input == 0));
  }
}

TEST_CASE("fused batch norm computes the gradients that are asked for", "[fused_norm]") {
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  const bool training = GENERATE(true, false), with_residual = GENERATE(true, false);
  at::manual_seed(9);
  const auto given =
      random_case({4, 24, 9, 8}, at::kFloat, nhwc, with_residual, activation, training);
  const auto all = found(given);
  // Bits: input, residual, weight, bias. No weight and no bias at all in the second round.
  for (int wanted = 1; wanted < 16; ++wanted) {
    auto call = given.call;
    int bit = 0;
    const auto leaf = [&](at::Tensor& tensor) {
      if (tensor.defined())
        tensor = tensor.detach().clone().requires_grad_((wanted >> bit & 1) != 0);
      ++bit;
    };
    leaf(call.input), leaf(call.residual), leaf(call.weight), leaf(call.bias);
    call.running_mean = call.running_mean.clone(), call.running_var = call.running_var.clone();
    const auto output = batch_norm_with(call);
    CHECK(at::equal(output, all.output));
    if (!output.requires_grad()) continue;
    output.backward(given.gradient);
    const auto same = [](const at::Tensor& tensor, const at::Tensor& gradient) {
      if (!tensor.defined()) return true;
      return tensor.requires_grad() ? at::equal(tensor.grad(), gradient) : !tensor.grad().defined();
    };
    CAPTURE(wanted);
    CHECK(same(call.input, all.input));
    CHECK(same(call.residual, all.residual));
    CHECK(same(call.weight, all.weight));
    CHECK(same(call.bias, all.bias));
  }
  auto plain = given;
  plain.call.weight = at::Tensor(), plain.call.bias = at::Tensor();
  auto ones = given;
  ones.call.weight = at::ones({24}), ones.call.bias = at::zeros({24});
  auto call = plain.call;
  call.input = call.input.clone().requires_grad_(true);
  call.running_mean = call.running_mean.clone(), call.running_var = call.running_var.clone();
  const auto output = batch_norm_with(call);
  output.backward(given.gradient);
  const auto expected = found(ones);
  CHECK(at::equal(output, expected.output));
  CHECK(at::equal(call.input.grad(), expected.input));
}

namespace {

/// Sums of whole tensors on this thread while one lives.
class SumCounter {
 public:
  SumCounter() {
    count() = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& call)
                                       -> std::unique_ptr<at::ObserverContext> {
          const std::string name = call.name();
          count() += name == "aten::add" || name == "aten::add_" ? 1 : 0;
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~SumCounter() { at::removeCallback(handle_); }
  SumCounter(const SumCounter&) = delete;
  SumCounter& operator=(const SumCounter&) = delete;

  static int& count() {
    static int count = 0;
    return count;
  }

 private:
  at::CallbackHandle handle_;
};

/// A norm's output that goes into a product and, as the residual, into `residuals` norms with the
/// activation: all gradients, and how many sums autograd made.
struct Shared {
  std::vector<at::Tensor> gradients;
  at::Tensor seen;  ///< by a hook on the output, where there is one
  int sums = 0;
};
Shared shared_output(const Case& first, const Case& second, const at::Tensor& factor, int residuals,
                     bool with_hook) {
  Shared all;
  std::vector<at::Tensor> leaves;
  const auto leaf = [&](at::Tensor& tensor) {
    tensor = tensor.detach().clone().requires_grad_(true), leaves.push_back(tensor);
  };
  auto maker = first.call, reader = second.call;
  for (auto* call : {&maker, &reader}) {
    leaf(call->input), leaf(call->weight), leaf(call->bias);
    call->running_mean = call->running_mean.clone(), call->running_var = call->running_var.clone();
  }
  if (maker.residual.defined()) leaf(maker.residual);
  const auto output = batch_norm_with(maker);
  if (with_hook) output.register_hook([&](const at::Tensor& gradient) { all.seen = gradient; });
  std::vector<at::Tensor> ends{output * factor}, gradients{second.gradient};
  for (int i = 0; i < residuals; ++i) {
    auto call = reader;
    call.residual = output;
    call.running_mean = call.running_mean.clone(), call.running_var = call.running_var.clone();
    ends.push_back(batch_norm_with(call)), gradients.push_back(first.gradient);
  }
  {
    const SumCounter sums;
    torch::autograd::backward(ends, gradients);
    all.sums = SumCounter::count();
  }
  for (const auto& one : leaves) all.gradients.push_back(one.grad());
  return all;
}

}  // namespace

TEST_CASE("what a residual's gradient adds to is added in the norm that made the residual",
          "[fused_norm]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto maker = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  const bool with_residual = GENERATE(true, false), training = GENERATE(true, false);
  CAPTURE(type, maker, with_residual, training);
  at::manual_seed(14);
  const std::vector<int64_t> shape{4, 24, 9, 8};
  auto first = random_case(shape, type, nhwc, with_residual, maker, training);
  const auto second = random_case(shape, type, nhwc, true, Activation::gelu, true);
  const auto factor = at::randn(shape).to(type).contiguous(nhwc);
  // Far from where rounding decides about ReLU
  first.call.input = first.call.input.sign() * (first.call.input.abs() + 0.5);
  const auto close = [&](const Shared& given, const Shared& expected) {
    for (size_t i = 0; i < given.gradients.size(); ++i) {
      CAPTURE(i);
      const double bound = type == at::kFloat ? 1e-5 : 0.02;
      const auto off = (given.gradients[i].to(at::kDouble) - expected.gradients[i]).abs();
      const double largest = expected.gradients[i].abs().max().item<double>();
      CHECK(at::quantile(off.flatten(), 0.98).item<double>() < bound * largest);
    }
  };
  const auto exact = [&](int residuals) {
    return shared_output(in_double(first), in_double(second), factor.to(at::kDouble), residuals,
                         false);
  };
  const auto one = shared_output(first, second, factor, 1, false);
  close(one, exact(1));
  CHECK(one.sums == 0);
  const auto seen = shared_output(first, second, factor, 1, true);
  for (size_t i = 0; i < one.gradients.size(); ++i)
    CHECK(at::equal(one.gradients[i], seen.gradients[i]));
  const auto two = shared_output(first, second, factor, 2, false);
  close(two, exact(2));
  CHECK(seen.sums == 1);
  REQUIRE(seen.seen.defined());
  const auto both =
      shared_output(in_double(first), in_double(second), factor.to(at::kDouble), 1, true);
  CHECK(at::allclose(seen.seen.to(at::kDouble), both.seen, 0.02, 0.02));
}

TEST_CASE("so it is on a GPU, also where the norm that made it takes a pool", "[fused_norm][gpu]") {
  if (!test::has_gpu()) return;
  const at::Device gpu(at::kCUDA, 0);
  const bool pooled = GENERATE(false, true);
  at::manual_seed(14);
  const std::vector<int64_t> shape{4, 24, 9, 8};
  auto first = random_case(shape, at::kFloat, nhwc, !pooled, Activation::none, true);
  if (pooled) first = with_pool(first, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
  const auto second = random_case(shape, at::kFloat, nhwc, true, Activation::gelu, true);
  const auto factor = at::randn(shape).contiguous(nhwc);
  const auto there = shared_output(on(gpu, first), on(gpu, second), factor.to(gpu), 1, false);
  const auto exact =
      shared_output(in_double(first), in_double(second), factor.to(at::kDouble), 1, false);
  CHECK((there.sums == 0) == !pooled);
  for (size_t i = 0; i < there.gradients.size(); ++i) {
    CAPTURE(pooled, i);
    CHECK(worst(there.gradients[i].cpu(), exact.gradients[i]) < 1e-4);
  }
}

TEST_CASE("a residual that only a norm reads gets its gradient", "[fused_norm]") {
  at::manual_seed(15);
  const auto given = random_case({4, 24, 9, 8}, at::kFloat, nhwc, true, Activation::relu, true);
  auto first = given.call, second = given.call;
  first.input = given.call.input.clone().requires_grad_(true);
  second.residual = batch_norm_with(first);
  SECTION("where it is the network's way") { batch_norm_with(second).backward(given.gradient); }
  SECTION("again, with the graph kept") {
    const auto output = batch_norm_with(second);
    output.backward(given.gradient, /*retain_graph=*/true);
    const auto once = first.input.grad().clone();
    first.input.mutable_grad().zero_();
    output.backward(given.gradient);
    CHECK(at::equal(first.input.grad(), once));
  }
  SECTION("where the gradients of chosen tensors are asked for") {
    const auto output = batch_norm_with(second);
    const auto found = torch::autograd::grad({output}, {second.residual, first.input},
                                             {given.gradient}, /*retain_graph=*/true);
    REQUIRE(found[0].defined());
    CHECK(found[0].abs().sum().item<float>() > 0);
    output.backward(given.gradient);
    CHECK(at::equal(first.input.grad(), found[1]));
  }
  CHECK(first.input.grad().abs().sum().item<float>() > 0);
}

TEST_CASE("two backward passes at once through one graph each have their residual's gradient",
          "[fused_norm]") {
  at::manual_seed(15);
  const auto given = random_case({4, 24, 9, 8}, at::kFloat, nhwc, true, Activation::relu, true);
  auto first = given.call, second = given.call;
  first.input = given.call.input.clone().requires_grad_(true);
  second.residual = batch_norm_with(first);
  const auto branch = second.residual * 2;
  second.input = branch;
  const auto output = batch_norm_with(second);
  const auto pass = [&] { output.backward(given.gradient, /*retain_graph=*/true); };
  pass();
  const auto once = first.input.grad().clone();
  first.input.mutable_grad().zero_();

  // Both are at the branch before one of them is at the first norm.
  std::mutex mutex;
  std::condition_variable arrival;
  int arrived = 0;
  branch.register_hook([&](const at::Tensor&) {
    std::unique_lock lock(mutex);
    ++arrived;
    arrival.notify_all();
    arrival.wait_for(lock, std::chrono::seconds(20), [&] { return arrived == 2; });
  });
  std::thread other(pass);
  pass();
  other.join();
  CHECK(arrived == 2);
  CHECK(at::allclose(first.input.grad(), 2 * once));
}

TEST_CASE("without gradients the output is the same", "[fused_norm]") {
  at::manual_seed(10);
  const auto given = random_case({2, 24, 9, 8}, at::kBFloat16, nhwc, true, Activation::relu, false);
  const auto expected = found(given).output;
  const at::NoGradGuard no_grad;
  const auto output = batch_norm_with(given.call);
  CHECK(at::equal(output, expected));
  CHECK_FALSE(output.requires_grad());
}

TEST_CASE("gradients and residuals of another layout or type are made like the input",
          "[fused_norm]") {
  at::manual_seed(11);
  const auto given = random_case({2, 24, 9, 8}, at::kBFloat16, nhwc, true, Activation::relu, true);
  const auto expected = found(given);
  auto other = given;
  other.gradient = given.gradient.contiguous(nchw);
  other.call.residual = given.call.residual.to(at::kFloat).contiguous(nchw);
  const auto all = found(other);
  CHECK(at::equal(all.output, expected.output));
  CHECK(at::equal(all.input, expected.input));
  CHECK(all.output.strides() == given.call.input.strides());
  CHECK(all.residual.scalar_type() == at::kFloat);
  CHECK(at::equal(all.residual, expected.residual.to(at::kFloat)));

  auto mean = given.call;
  mean.input = mean.input.clone().requires_grad_(true);
  batch_norm_with(mean).sum().backward();  // a gradient that is one number, spread
  CHECK(mean.input.grad().strides() == mean.input.strides());
}

TEST_CASE("a gradient of another layout is read right where nothing of the input is kept",
          "[fused_norm][gpu]") {
  at::manual_seed(13);
  const auto device = test::has_gpu() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  auto given = random_case({2, 24, 9, 8}, at::kFloat, nhwc, true, Activation::none, false);
  auto& call = given.call;
  for (auto* tensor : {&call.input, &call.residual, &call.weight, &call.bias, &call.running_mean,
                       &call.running_var, &given.gradient})
    *tensor = tensor->to(device);
  const auto gradients = [&](const at::Tensor& gradient) {
    auto copy = call;
    for (auto* image : {&copy.input, &copy.residual}) *image = image->clone().requires_grad_(true);
    batch_norm_with(copy).backward(gradient);
    return std::pair(copy.input.grad().cpu(), copy.residual.grad().cpu());
  };
  const auto expected = gradients(given.gradient);
  const auto apart = at::empty(given.gradient.numel() + 1, given.gradient.options());
  const auto odd = apart.narrow(0, 1, given.gradient.numel())
                       .view({2, 9, 8, 24})
                       .permute({0, 3, 1, 2})
                       .copy_(given.gradient);
  for (const auto& other : {given.gradient.contiguous(nchw), odd}) {
    const auto [input, residual] = gradients(other);
    CHECK(at::allclose(input, expected.first));
    CHECK(at::allclose(residual, expected.second));
  }
}

TEST_CASE("what there is no operator for is computed step by step, and said", "[fused_norm]") {
  at::manual_seed(12);
  const auto given = random_case({2, 8, 6, 6}, at::kFloat, nhwc, true, Activation::relu, true);
  const auto why = [&](const auto& change) {
    auto call = given.call;
    change(call);
    const auto output = batch_norm_with(call);
    CHECK(output.sizes() == call.input.sizes());
    return why_step_by_step(call);
  };
  CHECK(why([](NormCall&) {}).empty());
  CHECK(why([](NormCall& call) {
          call.input = call.input.to(at::kDouble), call.residual = call.residual.to(at::kDouble);
          for (auto* one : {&call.weight, &call.bias, &call.running_mean, &call.running_var})
            *one = one->to(at::kDouble);
        }) == "Double");
  CHECK(why([](NormCall& call) { call.residual = call.residual.narrow(0, 0, 1); }) ==
        "a residual of another shape");
  CHECK_THAT(why([](NormCall& call) {
               call.input = at::randn({2, 8, 6, 12}).slice(3, 0, 12, 2);
             }),
             Contains("without gaps"));
  CHECK_THAT(why([](NormCall& call) {
               call.input = call.input.to(at::kBFloat16);
               for (auto* one : {&call.weight, &call.bias, &call.running_mean, &call.running_var})
                 *one = one->to(at::kBFloat16);
             }),
             Contains("float32"));
  const Unfused unfused;
  CHECK(why([](NormCall&) {}) == "switched off");
}

TEST_CASE("a fused batch norm's gradient has none of its own, and says so", "[fused_norm]") {
  at::manual_seed(13);
  auto call = random_case({2, 8, 6, 6}, at::kFloat, nhwc, false, Activation::gelu, true).call;
  call.input.requires_grad_(true);
  const auto loss = batch_norm_with(call).square().sum();
  const auto gradient =
      torch::autograd::grad({loss}, {call.input}, {}, std::nullopt, /*create_graph=*/true)[0];
  CHECK(gradient.abs().sum().item<double>() > 0);
  CHECK_THROWS_WITH(gradient.sum().backward(), Contains("cannot be differentiated again"));
}

TEST_CASE("fused batch norm keeps its input, and its output where a residual went in",
          "[fused_norm]") {
  class Net : public Model {
   public:
    explicit Net(Activation activation, bool with_residual)
        : activation_(activation),
          with_residual_(with_residual),
          norm_(add<BatchNorm2d>("n", 24)) {}
    at::Tensor forward(const at::Tensor& input) override {
      if (!with_residual_) return norm_(input, {}, activation_);
      const auto residual = at::randn_like(input);  // nobody else keeps it
      return norm_(input, residual, activation_);
    }
    int64_t num_classes() const override { return 1; }

   private:
    Activation activation_;
    bool with_residual_;
    Slot& norm_;
  };
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  const bool with_residual = GENERATE(true, false);
  Net net(activation, with_residual);
  const auto input = at::randn({4, 24, 16, 16}).to(at::kBFloat16).contiguous(nhwc);
  const int64_t images = activation != Activation::none && with_residual ? 2 : 1;
  const int64_t bytes = images * static_cast<int64_t>(input.nbytes());
  const int64_t kept = test::saved_bytes(net, input);
  CHECK(kept >= bytes);
  CHECK(kept <= bytes + 2 * 4 * 24);
}

TEST_CASE("a fused batch norm has a name among the operators", "[fused_norm]") {
  Timer timer(Timer::Listen::operators);
  found(random_case({2, 8, 6, 6}, at::kFloat, nhwc, false, Activation::relu, true));
  const auto operators = timer.totals().operators;
  CHECK(operators.count("composer::fused_batch_norm") == 1);
  CHECK(operators.count("composer::fused_batch_norm_backward") == 1);
  CHECK(operators.count("aten::native_batch_norm") == 0);
}

}  // namespace composer::fused_norm_test
