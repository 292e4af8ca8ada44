#include "nn/network/cost.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "composer/run/image_fit.h"
#include "models/airbench.h"
#include "models/convnext.h"
#include "models/efficientnet.h"
#include "models/mnist_classifier.h"
#include "models/mobilenet_v3.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "models/wide_resnet.h"
#include "tests/composer/saved_tensors.h"
#include "tests/python.h"

namespace composer::cost_test {
namespace {

at::Tensor images(Model& model, int64_t batch_size, int64_t size) {
  return at::randn({batch_size, *image_channels(model), size, size});
}

NetworkCost cost(Model& model, int64_t size, int64_t batch_size = 1) {
  return cost_of(record(model, images(model, 1, size)), model, batch_size);
}

ResNet resnet(const std::string& name, int64_t groups = 1, int64_t width = 64) {
  ResNet::Params params;
  params.model_name = name, params.groups = groups, params.width_per_group = width;
  return ResNet(params);
}

ResNetCifar resnet_cifar(const std::string& name) {
  ResNetCifar::Params params;
  params.model_name = name;
  return ResNetCifar(params);
}

}  // namespace

TEST_CASE("parameters and FLOPs of torchvision's networks", "[models][cost]") {
  struct Known {
    std::string name;
    int64_t groups, width, parameters, forward;
  };
  const int64_t first_layer = 236027904;  // whose input needs no gradient
  for (const auto& [name, groups, width, parameters, forward] :
       std::vector<Known>{{"resnet18", 1, 64, 11689512, 3628146688},
                          {"resnet50", 1, 64, 25557032, 8178368512},
                          {"resnet50", 32, 4, 25028904, 8460959744},
                          {"resnet50", 1, 128, 68883240, 22796042240}}) {
    INFO(name << ' ' << groups << ' ' << width);
    auto model = resnet(name, groups, width);
    const auto found = cost(model, 224);
    CHECK(found.parameters == parameters);
    CHECK(found.flops_forward == forward);
    CHECK(found.flops_step == 3 * forward - first_layer);
  }
}

TEST_CASE("FLOPs of the networks are the published ones", "[models][cost]") {
  const auto gflops = [](Model&& model) { return cost(model, 224).flops_forward / 2e9; };
  CHECK(gflops(MobileNetV3({})) == Approx(0.22).epsilon(0.02));
  CHECK(gflops(EfficientNet({})) == Approx(0.39).epsilon(0.02));
  CHECK(gflops(ConvNeXt({})) == Approx(4.46).epsilon(0.01));
  CHECK(gflops(ResNet({.variant = "d"})) == Approx(4.35).epsilon(0.02));
}

TEST_CASE("receptive fields of residual networks", "[models][cost]") {
  const auto size = [](auto model, int64_t image) {
    const auto field = cost(model, image).receptive_field;
    CHECK(field.size[0] == field.size[1]);
    return field.size[0];
  };
  CHECK(size(resnet("resnet18"), 224) == 435);
  CHECK(size(resnet("resnet50"), 224) == 427);
}

TEST_CASE("activation bytes of the networks are those that autograd saves", "[models][cost]") {
  const auto compare = [](Model& model, int64_t size) {
    INFO(model.describe());
    const auto expected = test::saved_bytes(model, images(model, 2, size));
    CHECK(cost(model, size, 2).activation_bytes == expected);
  };
  auto resnet18 = resnet("resnet18"), resnet50 = resnet("resnet50");
  auto resnet_9 = resnet_cifar("resnet_9"), resnet_20 = resnet_cifar("resnet_20");
  Airbench airbench{Airbench::Params()};
  MnistClassifier mnist{MnistClassifier::Params()};
  compare(resnet18, 64);
  compare(resnet50, 64);
  compare(resnet_9, 32);
  compare(resnet_20, 32);
  compare(airbench, 32);
  compare(mnist, 28);
  for (const auto& model : std::vector<std::shared_ptr<Model>>{
           std::make_shared<ConvNeXt>(ConvNeXt::Params{}),
           std::make_shared<EfficientNet>(EfficientNet::Params{}),
           std::make_shared<MobileNetV3>(MobileNetV3::Params{}),
           std::make_shared<WideResNet>(WideResNet::Params{.depth = 16, .width = 2})})
    compare(*model, 64);
  resnet18.freeze({"conv1.*", "bn1.*", "layer1.*"});
  compare(resnet18, 64);
}

TEST_CASE("parameters, FLOPs and activations equal those of Python's torch", "[models][cost]") {
  if (!test::has_python()) {
    WARN("skipped: no Python with torchvision in .deps");
    return;
  }
  const auto expected = nlohmann::json::parse(test::output_of("tests/models/cost_reference.py"));
  const auto compare = [&](Model& model, const std::string& name, int64_t size) {
    INFO(name);
    const auto found = cost(model, size, 2);
    const auto& theirs = expected.at(name);
    CHECK(found.parameters == theirs.at("parameters"));
    CHECK(found.flops_forward == theirs.at("flops_forward"));
    CHECK(found.flops_step == theirs.at("flops_step"));
    CHECK(found.activation_bytes == theirs.at("activation_bytes"));
  };
  for (const char* name : {"resnet18", "resnet50"}) {
    auto model = resnet(name);
    compare(model, name, 224);
  }
  for (const char* name : {"resnet_20", "resnet_56"}) {
    auto model = resnet_cifar(name);
    compare(model, name, 32);
  }
}

}  // namespace composer::cost_test
