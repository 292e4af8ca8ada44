// The kernels of batch normalisation for GPUs, run on the CPU thread by thread, against ATen.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

#include "cuda/norm_passes.h"
#include "tests/on_host.h"

namespace composer::cuda_norm_test {

using namespace composer::cuda;

namespace {

struct Case {
  at::ScalarType type;
  std::vector<int64_t> shape;  ///< [N, H, W, C]
  bool residual, training;
  NormFollows follows;
  bool marks = false;   ///< ReLU's derivative is read from bits
  bool joined = false;  ///< the output gets a further gradient
};

/// Of the kernels, or of ATen in float64: images as [N, H, W, C].
struct Results {
  at::Tensor output, running_mean, running_var, for_input, for_residual, for_weight, for_bias;
};

struct Inputs {
  explicit Inputs(const Case& c, double offset) {
    at::manual_seed(3);
    const auto images = [&] { return at::randn(c.shape, at::kDouble).to(c.type); };
    input = (at::randn(c.shape, at::kDouble) * 2 + offset).to(c.type);
    if (c.residual) residual = images();
    gradient = images();
    if (c.joined) added = images();
    const auto channels = c.shape.back();
    weight = at::rand({channels}) + 0.5, bias = at::randn({channels});
    running_mean = at::randn({channels}), running_var = at::rand({channels}) + 0.5;
  }
  at::Tensor input, residual, gradient, added, weight, bias, running_mean, running_var;
};

constexpr double eps = 1e-5, momentum = 0.1;

Results of_aten(const Case& c, const Inputs& in) {
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.to(at::kDouble).clone().requires_grad_(true);
  };
  const auto input = leaf(in.input), weight = leaf(in.weight), bias = leaf(in.bias);
  Results r;
  r.running_mean = in.running_mean.to(at::kDouble), r.running_var = in.running_var.to(at::kDouble);
  auto value = at::batch_norm(input.permute({0, 3, 1, 2}), weight, bias, r.running_mean,
                              r.running_var, c.training, momentum, eps, false)
                   .permute({0, 2, 3, 1});
  at::Tensor residual;
  if (c.residual) value = value + (residual = leaf(in.residual));
  if (c.follows == NormFollows::relu) value = value.relu();
  if (c.follows == NormFollows::gelu) value = at::gelu(value);
  const auto gradient = in.gradient.to(at::kDouble);
  value.backward(c.joined ? gradient + in.added.to(at::kDouble) : gradient);
  r.output = value.detach();
  r.for_input = input.grad(), r.for_weight = weight.grad(), r.for_bias = bias.grad();
  if (c.residual) r.for_residual = residual.grad();
  return r;
}

template <class T>
Results of_kernels(const Case& c, const Inputs& in) {
  const int64_t channels = c.shape.back(), rows = in.input.numel() / channels;
  const auto numbers = [](int64_t count) {
    return at::full({count}, std::numeric_limits<double>::quiet_NaN(), at::kFloat);
  };
  const auto image = [&] { return at::full_like(in.input, 77); };
  const auto at_ = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.data_ptr() : nullptr;
  };
  const auto floats = [](const at::Tensor& tensor) { return tensor.data_ptr<float>(); };
  Results r{.output = image(),
            .running_mean = in.running_mean.clone(),
            .running_var = in.running_var.clone(),
            .for_input = image(),
            .for_residual = c.residual ? image() : at::Tensor(),
            .for_weight = numbers(channels),
            .for_bias = numbers(channels)};
  const auto statistics = numbers(4 * channels), line = numbers(2 * channels),
             partial =
                 numbers(static_cast<int64_t>(partial_size(rows, static_cast<int>(channels))));
  OnHost run;
  NormForwardArguments forward{};
  forward.rows = rows, forward.channels = static_cast<int>(channels), forward.follows = c.follows;
  forward.input = at_(in.input), forward.residual = at_(in.residual);
  forward.norm = {
      floats(in.weight), floats(in.bias), floats(r.running_mean), floats(r.running_var), eps,
      momentum};
  forward.training = c.training;
  forward.statistics = floats(statistics), forward.partial = floats(partial);
  forward.output = at_(r.output);
  const auto marks = at::full({rows * channels / norm_width}, 0x55, at::kByte);
  if (c.marks) forward.marks = marks.data_ptr<uint8_t>();
  forward_passes<T>(forward, run);

  partial.fill_(std::numeric_limits<double>::quiet_NaN());
  NormBackwardArguments backward{};
  backward.rows = rows, backward.channels = forward.channels, backward.follows = c.follows;
  backward.training = c.training;
  backward.gradient = at_(in.gradient), backward.input = at_(in.input);
  if (c.residual && c.follows == NormFollows::gelu) backward.residual = at_(in.residual);
  if (c.marks)
    backward.marks = forward.marks;
  else if (c.residual && c.follows == NormFollows::relu)
    backward.output = at_(r.output);
  const auto added = c.joined ? in.added.clone() : at::Tensor();
  backward.added = at_(added);
  backward.statistics = floats(statistics), backward.partial = floats(partial);
  backward.line = floats(line);
  backward.for_weight = floats(r.for_weight), backward.for_bias = floats(r.for_bias);
  backward.before = c.joined ? at_(added) : at_(r.for_residual);
  backward.for_input = at_(r.for_input);
  backward_passes<T>(backward, run);
  if (c.joined && c.residual) r.for_residual = added;
  return r;
}

Results of_kernels(const Case& c, const Inputs& in) {
  if (c.type == at::kHalf) return of_kernels<c10::Half>(c, in);
  if (c.type == at::kBFloat16) return of_kernels<c10::BFloat16>(c, in);
  return of_kernels<float>(c, in);
}

/// The largest difference over the largest value.
double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b).abs().max() / b.abs().max()).item<double>();
}

void compare(const Case& c, double offset, double images, double sums) {
  const Inputs in(c, offset);
  const auto found = of_kernels(c, in), expected = of_aten(c, in);
  CHECK(difference(found.output, expected.output) < images);
  CHECK(difference(found.for_input, expected.for_input) < images);
  if (c.residual) CHECK(difference(found.for_residual, expected.for_residual) < images);
  CHECK(difference(found.for_weight, expected.for_weight) < sums);
  CHECK(difference(found.for_bias, expected.for_bias) < sums);
  CHECK(difference(found.running_mean, expected.running_mean) < 1e-6);
  CHECK(difference(found.running_var, expected.running_var) < 1e-5);
}

}  // namespace

TEST_CASE("the GPU's batch norm computes what ATen computes", "[cuda_norm]") {
  const auto shape = GENERATE(std::vector<int64_t>{4, 7, 5, 16}, std::vector<int64_t>{5, 1, 1, 8},
                              std::vector<int64_t>{3, 5, 5, 24}, std::vector<int64_t>{2, 3, 9, 264},
                              std::vector<int64_t>{8, 32, 32, 8},
                              std::vector<int64_t>{1, 60, 60, 264});  // some lanes have two rows
  const bool residual = GENERATE(false, true), training = GENERATE(true, false);
  const auto follows = GENERATE(NormFollows::nothing, NormFollows::relu, NormFollows::gelu);
  CAPTURE(shape, residual, training, static_cast<int>(follows));
  compare({at::kFloat, shape, residual, training, follows}, 0, 3e-5, 3e-5);
}

TEST_CASE("the GPU's batch norm rounds 16-bit images once", "[cuda_norm]") {
  const auto [type, rounding] =
      GENERATE(std::pair(at::kBFloat16, 1. / 128), std::pair(at::kHalf, 1. / 1024));
  const bool residual = GENERATE(false, true);
  const auto follows = GENERATE(NormFollows::nothing, NormFollows::relu, NormFollows::gelu);
  CAPTURE(type, residual, static_cast<int>(follows));
  // A value next to 0 may be rounded to 0 or not, which relu's gradient tells.
  compare({type, {4, 8, 8, 32}, residual, true, follows}, 0, rounding, 2e-3);
}

TEST_CASE("the GPU's batch norm adds two gradients, and reads ReLU's bits", "[cuda_norm]") {
  const auto [type, rounding] =
      GENERATE(std::pair(at::kFloat, 3e-5), std::pair(at::kBFloat16, 1. / 64),
               std::pair(at::kHalf, 1. / 512));
  const bool residual = GENERATE(false, true), marks = GENERATE(false, true);
  const bool joined = GENERATE(false, true), training = GENERATE(true, false);
  const auto follows = GENERATE(NormFollows::nothing, NormFollows::relu, NormFollows::gelu);
  if (marks && (follows != NormFollows::relu || !residual)) return;
  CAPTURE(type, residual, marks, joined, training, static_cast<int>(follows));
  compare({type, {3, 7, 9, 40}, residual, training, follows, marks, joined}, 0, rounding,
          type == at::kFloat ? 3e-5 : 4e-3);
}

TEST_CASE("ReLU's bits let NaN pass, and nothing that the output has as 0", "[cuda_norm]") {
  constexpr int channels = 8;
  const auto input = at::tensor({-1., 0., -0., 1., std::numeric_limits<double>::quiet_NaN(), 1e-8,
                                 std::numeric_limits<double>::infinity(), -1e-8})
                         .to(at::kHalf);
  const auto residual = at::zeros_like(input), output = at::zeros_like(input);
  auto mean = at::zeros({channels}), var = at::ones({channels});
  const auto statistics = at::zeros({4 * channels});
  uint8_t marks = 0;
  NormForwardArguments given{};
  given.rows = 1, given.channels = channels, given.follows = NormFollows::relu;
  given.input = input.data_ptr(), given.residual = residual.data_ptr();
  given.norm.running_mean = mean.data_ptr<float>(), given.norm.running_var = var.data_ptr<float>();
  given.statistics = statistics.data_ptr<float>();
  given.output = output.data_ptr(), given.marks = &marks;
  OnHost run;
  forward_passes<c10::Half>(given, run);
  CHECK(marks == 0b01011000);  // 1, NaN and infinity; 1e-8 is 0 in fp16
}

TEST_CASE("the GPU's batch norm keeps the variance of images far from 0", "[cuda_norm]") {
  compare({at::kFloat, {4, 16, 16, 16}, false, true, NormFollows::relu}, 1000, 5e-4, 5e-4);
}

TEST_CASE("the rows of blocks and lanes add up, for any number of them", "[cuda_norm]") {
  for (const int64_t rows : {1, 2, 31, 32, 33, 1000, 12345}) {
    const auto [shape, grid] = norm_grid(rows, 64, 16);
    int64_t all = 0;
    for (int block = 0; block < shape.blocks; ++block) {
      for (int every = shape.lanes; every > 0; every /= 2)
        for (int lane = 0; lane < every; ++lane) {
          int64_t some = 0;
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t place = row % shape.step() - int64_t{block} * shape.lanes;
            some += place >= 0 && place < shape.lanes && place % every == lane;
          }
          if (shape.rows_of_lanes(block, lane, every) != some) {
            CAPTURE(block, lane, every);
            CHECK(shape.rows_of_lanes(block, lane, every) == some);
          }
        }
      all += shape.rows_of_block(block);
    }
    CHECK(all == rows);
  }
}

}  // namespace composer::cuda_norm_test
