#include "inference/python_names.h"

#include <catch2/catch.hpp>

#include "composer/assemble.h"
#include "composer/error.h"
#include "composer/network/outline.h"
#include "composer/recipe/recipe.h"
#include "composer/storage/weights.h"
#include "inference/network_folder.h"
#include "models/named_models.h"
#include "networks.h"
#include "peer.h"
#include "tests/cli/everything.h"
#include "tests/composer/temporary_folder.h"
#include "tests/composer/terminal.h"

namespace composer {
namespace {

using Catch::Matchers::Contains;

void know_everything() {
  if (!registry().models.contains("resnet")) add_everything(registry());
}

/// The network of the recipe with weights that have seen data, after the surgery.
TakenNetwork taken(const std::string& model, const std::function<void(Model&)>& surgery = {}) {
  TakenNetwork all;
  all.network.recipe = "model: " + model + R"(
train_dataset: {cifar10: {use_synthetic: true}}
optimizer: {sgd: {lr: 0.1}}
train_batch_size: 4
max_duration: 1ep
device: cpu
)";
  const auto recipe = resolve({"the test's recipe", all.network.recipe}, {}, registry(),
                              {.evaluation = true, .options = {}});
  const test::NetworkCase given{"", [&] { return build_model(recipe); }, {3, 64, 64}};
  const auto network = test::settled(given);
  if (surgery) surgery(*network);
  network->eval();
  const auto told = all.network.recipe;
  all.network = test::trained(given, *network);
  all.network.recipe = told;
  all.network.outline = outline(*network);
  for (const auto& [name, tensor] : model_tensors(*network)) all.state[name] = tensor.detach();
  return all;
}

std::string said_of(const TakenNetwork& network, const std::string& library) {
  return standard_error_of([&] { check_names(network, library); });
}

/// What the library makes of the networks of that name.
bool agrees(const std::string& interpreter, const std::string& library,
            const std::vector<std::string>& names) {
  const TemporaryFolder folder;
  for (const auto& name : names) {
    const auto model = *std::ranges::find(named_models(), name, &NamedModel::name);
    std::string parameters;
    for (const auto& [key, value] : model.parameters) parameters += key + ": " + value + ", ";
    const auto network = taken("{" + model.component + ": {" + parameters + "num_classes: 7}}");
    check_names(network, library);
    write_network(folder / name, network.network, network.state);
    const auto images = at::randn({3, 3, 64, 64});
    write_safetensors(folder / (name + ".safetensors"),
                      {{"images", images},
                       {"logits", test::computed(read_network(folder / name).graph, images)}});
  }
  return test::ask_peer(interpreter, library + " " + folder.path().string());
}

TEST_CASE("a network that a library has is exported for it without a word", "[inference]") {
  know_everything();
  const std::string small = "{resnet: {model_name: resnet18, num_classes: 7}}";
  for (const std::string library : {"torchvision", "timm"}) {
    CHECK(said_of(taken(small), library).empty());
    CHECK(said_of(taken(small, [](Model& model) { apply_ghost_batchnorm(model, 2); }), library)
              .empty());
    CHECK_THAT(
        said_of(taken(small, [](Model& model) { apply_blurpool(model, {}); }), library),
        Contains(library + "'s network of these names is another one") && Contains("BlurConv2d"));
    CHECK_THAT(
        said_of(taken(small, [](Model& model) { apply_weight_standardization(model); }), library),
        Contains("layers differ by surgery"));
    CHECK_THAT(said_of(taken("{resnet: {model_name: resnet18, norm: group_norm}}"), library),
               Contains("norm_layer"));
  }
}

TEST_CASE("names of a library that has no such network are refused", "[inference]") {
  know_everything();
  const auto known = taken("{resnet: {model_name: resnet18, num_classes: 7}}");
  CHECK_THROWS_WITH(check_names(known, "torchvison"), Contains("did you mean 'torchvision'?"));
  CHECK_THROWS_WITH(check_names(taken("{resnet_cifar: {model_name: resnet_20}}"), "timm"),
                    Contains("timm has no network like resnet_cifar"));
  CHECK_THROWS_WITH(
      check_names(taken("{resnet: {model_name: resnet18, variant: d}}"), "torchvision"),
      Contains("variant b"));
  CHECK_THROWS_WITH(check_names(taken("{mobilenet_v3: {model_name: mobilenet_v3_small}}"), "timm"),
                    Contains("timm has no network like mobilenet_v3"));
  auto quantized = known;
  quantized.network.quantization.weight_scales[0] = at::ones({1});
  CHECK_THROWS_WITH(check_names(quantized, "timm"), Contains("no quantized networks"));
  auto untold = known;
  untold.network.recipe.clear();
  CHECK_THROWS_WITH(check_names(untold, "timm"), Contains("without a recipe"));
}

TEST_CASE("torchvision loads exported weights strictly and agrees", "[inference][peer][slow]") {
  if (!test::has_python()) {
    WARN("skipped: no Python with torchvision in .deps");
    return;
  }
  know_everything();
  CHECK(agrees(test::python(), "torchvision",
               {"resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "vgg11_bn",
                "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny"}));
}

TEST_CASE("timm loads exported weights strictly and agrees", "[inference][peer][slow]") {
  const char* const interpreter = std::getenv("COMPOSER_INFERENCE_PYTHON");
  if (interpreter == nullptr) {
    WARN("skipped: COMPOSER_INFERENCE_PYTHON names no Python with timm");
    return;
  }
  know_everything();
  CHECK(agrees(interpreter, "timm",
               {"resnet18", "resnet50", "resnet50d", "resnext50_32x4d", "wide_resnet50_2"}));
}

}  // namespace
}  // namespace composer
