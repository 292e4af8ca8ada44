#include "algorithms/blurpool.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "models/resnet.h"
#include "nn/network/precision.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::blurpool_test {

using test::Fixture;
using test::TinyModel;

namespace {

/// Blurs by adding shifted images up, in double precision.
at::Tensor reference_blur(const at::Tensor& input, int64_t stride) {
  const auto padded = at::constant_pad_nd(input.to(at::kDouble), {1, 1, 1, 1});
  auto sum = at::zeros_like(input, at::kDouble);
  const double weights[] = {1, 2, 1};
  for (int64_t y = 0; y < 3; ++y)
    for (int64_t x = 0; x < 3; ++x)
      sum = sum + weights[y] * weights[x] / 16 *
                      padded.narrow(2, y, input.size(2)).narrow(3, x, input.size(3));
  return sum.slice(2, {}, {}, stride).slice(3, {}, {}, stride);
}

at::Tensor conv2d(const at::Tensor& input, const Conv2d& conv, int64_t stride) {
  return at::conv2d(input, conv.weight.to(input.dtype()), conv.bias.to(input.dtype()),
                    {stride, stride}, conv.options().padding);
}

std::vector<std::string> paths(const std::vector<Replacement>& replacements) {
  std::vector<std::string> all;
  for (const auto& replacement : replacements) all.push_back(replacement.path);
  return all;
}

}  // namespace

TEST_CASE("blur and its gradient equal a sum of shifted images", "[blurpool]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const int64_t stride = GENERATE(1, 2, 3);
  const int64_t height = GENERATE(1, 7, 12);
  const double tolerance = type == at::kFloat ? 1e-5 : 2e-2;
  CAPTURE(type, stride, height);

  const auto values = at::randn({2, 20, height, 9}).to(type);
  const auto input = values.clone().contiguous(format).requires_grad_();
  const auto exact = values.to(at::kDouble).requires_grad_();
  const auto output = blur(input, {stride, stride});
  const auto expected = reference_blur(exact, stride);
  CHECK(output.scalar_type() == type);
  CHECK(output.is_contiguous(format));
  REQUIRE(output.sizes() == expected.sizes());
  CHECK(at::allclose(output.to(at::kDouble), expected, tolerance, tolerance));

  const auto gradient = at::randn_like(output);
  output.backward(gradient);
  expected.backward(gradient.to(at::kDouble));
  CHECK(input.grad().scalar_type() == type);
  CHECK(at::allclose(input.grad().to(at::kDouble), exact.grad(), tolerance, tolerance));
}

TEST_CASE("a batch beyond the limit is blurred part by part, with the same gradients",
          "[blurpool]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const int64_t most_elements = GENERATE(1, 2 * 4 * 6 * 7, 3 * 4 * 6 * 7 - 1);
  const auto input = at::randn({5, 4, 6, 7}).contiguous(format).requires_grad_();
  const auto reference = input.detach().clone().requires_grad_();
  const auto filter = blur_filter(input);
  const auto output = blur(input, {2, 2}, filter, most_elements);
  const auto expected = blur(reference, {2, 2}, filter);
  CHECK(output.is_contiguous(format));
  CHECK(at::allclose(output, expected, 1e-6, 1e-6));
  const auto gradient = at::randn_like(expected);
  output.backward(gradient);
  expected.backward(gradient);
  CHECK(at::allclose(input.grad(), reference.grad(), 1e-6, 1e-6));
}

TEST_CASE("a blurring layer makes its filter once, in both memory formats", "[blurpool]") {
  BlurFilter filter;
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = at::randn({2, 16, 8, 8}).contiguous(format);
    const auto first = filter(images);
    CHECK(first.suggest_memory_format() == format);
    CHECK(filter(images).is_same(first));
    CHECK(filter(images.narrow(0, 0, 1)).is_same(first));
  }
}

TEST_CASE("blurring a constant image keeps it, but for its border", "[blurpool]") {
  const auto output = blur(at::ones({1, 2, 5, 5}), {1, 1})[0][1];
  CHECK(output[2][2].item<float>() == 1);
  CHECK(output[0][2].item<float>() == 0.75f);
  CHECK(output[0][0].item<float>() == 0.5625f);
}

TEST_CASE("BlurConv2d is a convolution of the blurred input, or blurs its output", "[blurpool]") {
  const int64_t kernel = GENERATE(1, 3);
  const Conv2d conv({.in_channels = 16,
                     .out_channels = 6,
                     .kernel = {kernel, kernel},
                     .stride = {2, 2},
                     .padding = {kernel / 2, kernel / 2}});
  const auto input = at::randn({2, 16, 11, 12});
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = input.contiguous(format);
    const auto first = BlurConv2d(conv, true).forward(images);
    const auto last = BlurConv2d(conv, false).forward(images);
    CHECK(
        at::allclose(first.to(at::kDouble), conv2d(reference_blur(input, 1), conv, 2), 1e-4, 1e-5));
    CHECK(
        at::allclose(last.to(at::kDouble), reference_blur(conv2d(input, conv, 1), 2), 1e-4, 1e-5));
    CHECK(first.is_contiguous(format));
  }
}

TEST_CASE("BlurConv2d's gradients are those of the composition", "[blurpool]") {
  const int64_t kernel = GENERATE(1, 3);
  const Conv2d conv({.in_channels = 16,
                     .out_channels = 6,
                     .kernel = {kernel, kernel},
                     .stride = {2, 2},
                     .padding = {kernel / 2, kernel / 2}});
  BlurConv2d blurred(conv);
  const auto input = at::randn({2, 16, 8, 8}).requires_grad_();
  const auto exact = input.detach().to(at::kDouble).requires_grad_();
  blurred.forward(input).square().sum().backward();
  const auto weight_grad = conv.weight.grad().clone();
  conv.weight.mutable_grad().zero_();
  conv2d(reference_blur(exact, 1), conv, 2).square().sum().backward();
  CHECK(at::allclose(weight_grad, conv.weight.grad(), 1e-4, 1e-3));
  CHECK(at::allclose(input.grad().to(at::kDouble), exact.grad(), 1e-4, 1e-3));
}

TEST_CASE("BlurMaxPool2d pools without stride and blurs with it", "[blurpool]") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const auto shape = GENERATE(std::vector<int64_t>{2, 20, 9, 14}, std::vector<int64_t>{1, 3, 1, 1},
                              std::vector<int64_t>{3, 64, 16, 5});
  const Pool2dOptions options =
      GENERATE(Pool2dOptions{{3, 3}, {2, 2}, {1, 1}}, Pool2dOptions{{2, 2}, {2, 2}, {1, 1}},
               Pool2dOptions{{3, 3}, {1, 1}, {1, 1}}, Pool2dOptions{{3, 3}, {3, 3}, {1, 1}});
  const double tolerance = type == at::kFloat ? 1e-5 : 2e-2;
  CAPTURE(type, format, shape);

  const auto values = at::randn(shape).to(type);
  const auto input = values.clone().contiguous(format).requires_grad_();
  const auto exact = values.to(at::kDouble).requires_grad_();
  const auto output = BlurMaxPool2d(MaxPool2d(options)).forward(input);
  const auto expected = reference_blur(
      at::max_pool2d(exact, options.kernel, {1, 1}, options.padding), options.stride[0]);
  REQUIRE(output.sizes() == expected.sizes());
  CHECK(output.scalar_type() == type);
  CHECK(output.is_contiguous(format));
  CHECK(at::allclose(output.to(at::kDouble), expected, tolerance, tolerance));

  const auto gradient = at::randn_like(output);
  output.backward(gradient);
  expected.backward(gradient.to(at::kDouble));
  CHECK(at::allclose(input.grad().to(at::kDouble), exact.grad(), 2 * tolerance, 2 * tolerance));
}

TEST_CASE("BlurMaxPool2d treats infinities and nan as pooling does", "[blurpool]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  auto input = at::randn({1, 4, 9, 9});
  input[0][1][2][3] = std::numeric_limits<float>::quiet_NaN();
  input[0][2][5][5] = std::numeric_limits<float>::infinity();
  input[0][3].fill_(-std::numeric_limits<float>::infinity());
  const MaxPool2d pool(Pool2dOptions{{3, 3}, {2, 2}, {1, 1}});
  const auto pooled = at::max_pool2d(input, {3, 3}, {1, 1}, {1, 1});
  CHECK(at::allclose(BlurMaxPool2d(pool).forward(input.contiguous(format)), blur(pooled, {2, 2}),
                     1e-5, 1e-6,
                     /*equal_nan=*/true));
}

TEST_CASE("blurring layers work under autocast, and after an evaluation without gradients",
          "[blurpool]") {
  Fixture f;
  apply_blurpool(*f.state.model, {});
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const auto images = f.state.batch.input.contiguous(format);
  const double exact = f.loss();
  const Autocast autocast(Precision::amp_bf16, at::kCPU);
  {
    const c10::InferenceMode evaluation;
    CHECK(f.state.model->forward(images).scalar_type() == at::kBFloat16);
  }
  const auto loss = f.state.model->loss(f.state.model->forward(images), f.state.batch.target);
  CHECK(loss.item<double>() == Approx(exact).margin(0.02));
  loss.backward();
  for (const auto& parameter : f.state.model->named_parameters()) {
    CAPTURE(parameter.key());
    REQUIRE(parameter.value().grad().defined());
    CHECK(parameter.value().grad().scalar_type() == at::kFloat);
    CHECK(parameter.value().grad().abs().sum().item<double>() > 0);
  }
}

TEST_CASE("apply_blurpool replaces what fits and keeps weights and names", "[blurpool]") {
  TinyModel model;
  const auto before = model.named_parameters();
  const auto replaced = apply_blurpool(model, {});
  CHECK(paths(replaced) == std::vector<std::string>{"pool", "conv2", "conv3"});
  CHECK(replaced[1].before == "Conv2d(16, 24, 3x3, stride 2)");
  CHECK(replaced[1].after == "BlurConv2d: blur, then Conv2d(16, 24, 3x3, stride 2)");

  const auto after = model.named_parameters();
  CHECK(after.keys() == before.keys());
  for (const auto& parameter : before) CHECK(after[parameter.key()].is_same(parameter.value()));
  const auto images = at::randn({2, 3, 32, 32});
  model.forward(images);
  CHECK(model.named_buffers().is_empty());

  at::NoGradGuard no_grad;
  const auto outputs = model.forward(images);
  after["conv2.weight"].mul_(2);
  CHECK_FALSE(at::allclose(model.forward(images), outputs));
}

TEST_CASE("apply_blurpool does what its parameters say", "[blurpool]") {
  using Paths = std::vector<std::string>;
  const auto replaced = [](const BlurPool::Params& params) {
    TinyModel model;
    return paths(apply_blurpool(model, params));
  };
  CHECK(replaced({.replace_convs = false}) == Paths{"pool"});
  CHECK(replaced({.replace_maxpools = false}) == Paths{"conv2", "conv3"});
  CHECK(replaced({.min_channels = 24}) == Paths{"pool", "conv3"});
  CHECK(replaced({.min_channels = 3}) == Paths{"conv1", "pool", "conv2", "conv3"});
}

TEST_CASE("a blurpool that finds nothing is an error unless allowed", "[blurpool]") {
  BlurPool::Params params{.replace_maxpools = false, .min_channels = 1000};
  TinyModel model;
  CHECK_THROWS_AS(apply_blurpool(model, params), UserError);
  CHECK_THROWS_WITH(apply_blurpool(model, params), Catch::Contains("at least 1000 input channels"));
  params.allow_no_effect = true;
  CHECK(apply_blurpool(model, params).empty());
  params = {};
  apply_blurpool(model, params);
  CHECK_THROWS_AS(apply_blurpool(model, params), UserError);
}

TEST_CASE("blurpool changes the step, logs counts and reports what it replaced", "[blurpool]") {
  Fixture f;
  const double baseline = f.loss();
  BlurPool blurpool({});
  blurpool.init(f.state);
  CHECK(f.loss() != Approx(baseline));
  CHECK(f.logged("blurpool/num_blurpool_layers") == 1);
  CHECK(f.logged("blurpool/num_blurconv_layers") == 2);
  REQUIRE(blurpool.report().size() == 3);
  CHECK(blurpool.report()[0] ==
        "pool: MaxPool2d(3x3, stride 2) -> BlurMaxPool2d: blurred MaxPool2d(3x3, stride 2)");
}

TEST_CASE("blurpool treats the pool and six convolutions of ResNet-50", "[blurpool]") {
  ResNet model({});
  CHECK_THAT(paths(apply_blurpool(model, {})),
             Catch::UnorderedEquals(std::vector<std::string>{
                 "maxpool", "layer2.0.conv2", "layer2.0.downsample.0", "layer3.0.conv2",
                 "layer3.0.downsample.0", "layer4.0.conv2", "layer4.0.downsample.0"}));
}

}  // namespace composer::blurpool_test
