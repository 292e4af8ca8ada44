// Our networks against Python's PyTorch and torchvision, from the same weights.
#include <catch2/catch.hpp>
#include <fstream>

#include "composer/checkpoint/torch_file.h"
#include "composer/checkpoint/weights.h"
#include "models/convnext.h"
#include "models/efficientnet.h"
#include "models/mobilenet_v3.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "models/vgg.h"
#include "models/wide_resnet.h"
#include "nn/network/fused_norm.h"
#include "nn/network/precision.h"
#include "tests/composer/wave.h"
#include "tests/temporary_folder.h"
#include "tests/vectors.h"

namespace composer::reference_test {
namespace {

/// Of what is below 1e-9, to that: gradients of biases that a later batch norm takes out again are
/// 0 but for rounding, which differs by processor.
double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const auto a = actual.detach().to(at::kDouble), e = expected.detach().to(at::kDouble);
  return ((a - e).norm() / e.norm().clamp_min(1e-9)).item<double>();
}

/// What reference.py's summary() gives, as many elements of it as the expected one has.
at::Tensor summary(const at::Tensor& tensor, const at::Tensor& expected) {
  const auto flat = tensor.detach().to(at::kFloat).reshape(-1);
  return at::cat(
      {flat.norm().view(1), flat.slice(0, 0, std::max<int64_t>(expected.numel() - 1, 1))});
}

void check_summaries(const TensorMap& actual, const TensorMap& expected, const std::string& prefix,
                     double tolerance) {
  size_t compared = 0;
  for (auto it = expected.lower_bound(prefix);
       it != expected.end() && it->first.starts_with(prefix); ++it) {
    const auto name = it->first.substr(prefix.size());
    INFO(it->first);
    REQUIRE(actual.contains(name));
    const auto mine = summary(actual.at(name), it->second);
    REQUIRE(mine.sizes() == it->second.sizes());
    CHECK(relative_error(mine, it->second) < tolerance);
    ++compared;
  }
  CHECK(compared == actual.size());
}

void check_initialisation(Model& model, const TensorMap& expected, const std::string& name) {
  const auto prefix = name + "/initial/";
  for (const auto& [key, tensor] : model_tensors(model)) {
    INFO(prefix + key);
    REQUIRE(expected.contains(prefix + key));
    const auto& theirs = expected.at(prefix + key);
    CHECK(at::allclose(summary(tensor, theirs), theirs, 1e-6, 0));
  }
}

void check_logits(Model& model, const TensorMap& expected, const std::string& name) {
  const at::NoGradGuard no_grad;
  model.eval();
  const auto& input = expected.at(name + "/input");
  CHECK(relative_error(model.forward(input), expected.at(name + "/logits")) < 1e-4);

  for (auto& parameter : model.parameters())
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  const auto last = input.contiguous(at::MemoryFormat::ChannelsLast);
  CHECK(relative_error(model.forward(last), expected.at(name + "/logits")) < 1e-4);

  const Autocast autocast(Precision::amp_bf16, at::kCPU);
  const auto &exact = expected.at(name + "/logits"), &rounded = expected.at(name + "/bf16_logits");
  const auto logits = model.forward(last);
  CHECK(logits.scalar_type() == at::kBFloat16);
  CHECK(relative_error(logits, exact) < 1.5 * relative_error(rounded, exact));
  // Python rounds between a norm and what follows it.
  const Unfused step_by_step;
  CHECK(relative_error(model.forward(last), rounded) < 2e-3);
}

void check_training_step(Model& model, const at::Tensor& input, const TensorMap& expected,
                         const std::string& name) {
  model.train();
  // Where a value is next to zero, its last bit decides whether ReLU hands its gradient on: those
  // of ResNet-50 on few pixels in float32 are off by a hundredth, wherever rounding differs.
  const Unfused step_by_step;
  Target target{.classes = expected.at(name + "/classes"),
                .other_classes = {},
                .other_weight = {},
                .smoothing = 0.1};
  const auto logits = model.forward(input);
  CHECK(relative_error(logits, expected.at(name + "/logits")) < 1e-4);
  const auto loss = model.loss(logits, target);
  CHECK(relative_error(loss, expected.at(name + "/loss")) < 1e-5);
  loss.backward();

  TensorMap gradients;
  const at::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) {
    auto& parameter = item.value();
    gradients[item.key()] = parameter.grad();
    parameter.sub_(parameter.grad() + parameter * 0.01, 0.1);
  }
  check_summaries(gradients, expected, name + "/gradient/", 1e-3);
  check_summaries(model_tensors(model), expected, name + "/after/", 1e-4);
}

void check_files(const TemporaryFolder& folder) {
  ResNetCifar from_safetensors({.model_name = "resnet20", .initializers = {}});
  CHECK_THROWS_WITH(load_weights(from_safetensors, folder / "legacy.pth"),
                    Catch::Matchers::Contains("before 1.6"));
  CHECK_THROWS_WITH(load_weights(from_safetensors, folder / "whole_model.pth"),
                    Catch::Matchers::Contains("save model.state_dict()"));
  load_weights(from_safetensors, folder / "training.pth");

  for (const char* file : {"kinds.pth", "protocol4.pth"}) {
    INFO(file);
    const auto kinds = read_torch_file(folder / file);
    REQUIRE(kinds.size() == 9);
    CHECK(at::equal(kinds.at("strided"), at::arange(12, at::kFloat).view({3, 4}).t().slice(0, 1)));
    CHECK(kinds.at("scalar").item<float>() == 2.5F);
    CHECK(at::equal(kinds.at("bf16"), at::ones({3}, at::kBFloat16)));
    CHECK(at::equal(kinds.at("flags"), at::tensor({1, 0}).to(at::kBool)));
    CHECK(at::equal(kinds.at("tied_a"), kinds.at("tied_b")));
    CHECK(at::equal(kinds.at("parameter"), at::ones({2})));
    CHECK(kinds.at("empty").sizes() == at::IntArrayRef{0, 5});
    CHECK(kinds.at("u16").to(at::kLong).item<int64_t>() == 65535);
  }
}

/// Freshly seeded, and after a step in double precision.
void check_seeded(Model&& model, int64_t size, const TensorMap& expected, const std::string& name) {
  check_initialisation(model, expected, name);
  model.to(at::kDouble);
  check_training_step(model, wave({4, 3, size, size}, 0.3, 0.7).to(at::kDouble), expected,
                      name + "_step");
}

/// reference.py's noise().
at::Tensor noise(at::IntArrayRef shape, double phase) {
  const auto count = at::arange(c10::multiply_integers(shape), at::kDouble);
  const auto x = (count * 12.9898 + phase).sin() * 43758.5453;
  return (2 * (x - x.floor()) - 1).reshape(shape);
}

/// Does what reference.py's filled() does.
void fill(Model& model) {
  const at::NoGradGuard no_grad;
  model.to(at::kDouble);
  double k = 0;
  for (auto& [name, tensor] : model_tensors(model)) {
    const double phase = k++;
    if (name.ends_with("num_batches_tracked")) continue;
    auto numbers = noise(tensor.sizes(), phase);
    if (name.ends_with("layer_scale"))
      numbers = 0.5 + 0.2 * numbers;
    else if (tensor.dim() > 1)
      numbers = numbers * (3 / std::sqrt(static_cast<double>(tensor[0].numel())));
    else if (name.ends_with("running_var"))
      numbers = 1 + 0.5 * numbers;
    else if (name.ends_with("weight"))
      numbers = 1 + 0.2 * numbers;
    else
      numbers = 0.1 * numbers;
    tensor.copy_(numbers);
  }
}

/// Of ten classes, from the same numbers: logits, and a training step where one was recorded.
void check_filled(Model&& model, int64_t size, const TensorMap& expected, const std::string& name) {
  INFO(name);
  fill(model);
  const auto input = noise({4, 3, size, size}, 0.3);
  model.eval();
  {
    const at::NoGradGuard no_grad;
    CHECK(relative_error(model.forward(input), expected.at(name + "/logits")) < 1e-4);
  }
  if (expected.contains(name + "_step/logits"))
    check_training_step(model, input, expected, name + "_step");
}

}  // namespace

TEST_CASE("networks of the same numbers compute what Python's do", "[models][reference]") {
  const auto expected = read_safetensors(test::vector_path("networks.safetensors"));
  check_filled(ResNet({.num_classes = 10, .initializers = {}, .variant = "d"}), 70, expected,
               "resnet50d");
  check_filled(ResNet({.num_classes = 10, .initializers = {}, .groups = 32, .width_per_group = 4}),
               64, expected, "resnext50_32x4d");
  check_filled(WideResNet({.depth = 16, .width = 2, .initializers = {}}), 32, expected,
               "wide_resnet_16_2");
  check_filled(MobileNetV3({.num_classes = 10, .initializers = {}}), 64, expected,
               "mobilenet_v3_large");
  check_filled(EfficientNet({.num_classes = 10, .initializers = {}}), 64, expected,
               "efficientnet_b0");
  check_filled(ConvNeXt({.num_classes = 10, .initializers = {}}), 64, expected, "convnext_tiny");
}

TEST_CASE("large networks of the same numbers compute what Python's do",
          "[models][reference][long]") {
  const auto expected = read_safetensors(test::vector_path("networks.safetensors"));
  check_filled(Vgg({.num_classes = 10, .initializers = {}}), 64, expected, "vgg16_bn");
  check_filled(ResNet({.num_classes = 10, .initializers = {}, .width_per_group = 128}), 64,
               expected, "wide_resnet50_2");
}

TEST_CASE("seeded networks and their first step are Python's", "[models][reference]") {
  const auto expected = read_safetensors(test::vector_path("networks.safetensors"));
  for (const std::string name : {"resnet18", "resnet50"}) {
    at::manual_seed(7);
    check_seeded(ResNet({.model_name = name, .initializers = {}}), 64, expected, name);
  }
  at::manual_seed(7);
  check_seeded(ResNetCifar({.model_name = "resnet_20", .initializers = {}}), 32, expected,
               "resnet_20");
}

// One test, so that Python starts once.
TEST_CASE("networks agree with Python's", "[models][reference][peer][recorded][slow]") {
  if (!test::has_python()) {
    WARN("skipped: no " << test::python());
    return;
  }
  const TemporaryFolder folder;
  test::output_of("tests/models/reference.py", (folder / "").string());
  const auto expected = read_safetensors(folder / "expected.safetensors");

  for (const std::string name : {"resnet18", "resnet50"}) {
    at::manual_seed(7);
    ResNet model({.model_name = name, .initializers = {}});
    check_initialisation(model, expected, name);
    load_weights(model, folder / (name + ".pth"));
    check_logits(model, expected, name);
    check_training_step(model, expected.at(name + "_step/input"), expected, name + "_step");
  }
  ResNetCifar model({.model_name = "resnet_20", .initializers = {}});
  load_weights(model, folder / "resnet20.safetensors");
  check_training_step(model, expected.at("resnet20_step/input"), expected, "resnet20_step");
  check_files(folder);

  test::output_of("tests/models/reference.py", (folder / "").string() + " recorded");
  std::ifstream file(folder / "networks.safetensors", std::ios::binary);
  test::record("networks.safetensors", {std::istreambuf_iterator<char>(file), {}});
}

}  // namespace composer::reference_test
