#include <ATen/core/grad_mode.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/recipe.h"
#include "composer/run/assemble.h"
#include "inference/from_checkpoint.h"
#include "inference/network_folder.h"
#include "models/all.h"
#include "networks.h"
#include "nn/network/outline.h"
#include "peer.h"
#include "tests/cli/everything.h"
#include "tests/composer/terminal.h"
#include "tests/temporary_folder.h"
#include "tests/vectors.h"

namespace composer::python_names_test {
namespace {

using Catch::Matchers::Contains;

void know_everything() {
  if (!registry().models.contains("resnet")) add_everything(registry());
}

std::string recipe_of(const std::string& model) {
  return "model: " + model + R"(
train_dataset: {cifar10: {use_synthetic: true}}
optimizer: {sgd: {lr: 0.1}}
train_batch_size: 4
max_duration: 1ep
device: cpu
)";
}

std::shared_ptr<Model> built(const std::string& recipe) {
  return build_model(
      resolve({"the test's recipe", recipe}, {}, registry(), {.evaluation = true, .options = {}}));
}

/// The recipe's words for a network of named_models().
std::string model_named(const std::string& name, int64_t classes) {
  const auto model = *std::ranges::find(named_models(), name, &NamedModel::name);
  std::string parameters;
  for (const auto& [key, value] : model.parameters) parameters += key + ": " + value + ", ";
  return "{" + model.component + ": {" + parameters + "num_classes: " + std::to_string(classes) +
         "}}";
}

/// The network of the recipe with weights that have seen data, after the surgery, for images of so
/// many pixels a side.
TakenNetwork taken(const std::string& model, const std::function<void(Model&)>& surgery = {},
                   int64_t side = 64) {
  TakenNetwork all;
  all.network.recipe = recipe_of(model);
  const test::NetworkCase given{"", [&] { return built(all.network.recipe); }, {3, side, side}};
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
  return standard_error_of([&] { names_in(network, library); });
}

/// What the library makes of the networks of that name.
bool agrees(const std::string& interpreter, const std::string& library,
            const std::vector<std::string>& names) {
  const TemporaryFolder folder;
  for (const auto& name : names) {
    const auto network = taken(model_named(name, 7));
    write_network(folder / name, network.network, network.state, names_in(network, library));
    const auto images = at::randn({3, 3, 64, 64});
    write_safetensors(folder / (name + ".safetensors"),
                      {{"images", images},
                       {"logits", test::computed(read_network(folder / name).graph, images)}});
  }
  return test::ask_peer(interpreter, library + " " + folder.path().string());
}

/// Networks that timm has, by our names.
const std::vector<std::string> in_timm{
    "convnext_tiny", "efficientnet_b0", "mobilenet_v3_large", "mobilenet_v3_small",
    "resnet50d",     "resnext50_32x4d", "vgg16_bn",           "wide_resnet50_2"};

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.sizes())
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

/// listing: of each tensor of timm's networks "NETWORK TENSOR SHAPE".
void check_names_in_timm(const std::string& listing) {
  std::map<std::string, std::set<std::string>> expected;
  std::istringstream words(listing);
  for (std::string network, tensor, shape; words >> network >> tensor >> shape;)
    expected[network].insert(tensor + " " + shape);
  CHECK(expected.size() == in_timm.size());
  const at::NoGradGuard no_grad;
  for (const auto& name : in_timm) {
    INFO(name);
    const auto model = built(recipe_of(model_named(name, 1000)));
    const auto names = model->names_in("timm");
    REQUIRE(names.has_value());
    std::set<std::string> ours;
    for (const auto& [tensor, values] : in_names_of(*names, model_tensors(*model)))
      ours.insert(tensor + " " + shape_text(values));
    CHECK(ours == expected[name]);
  }
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
  CHECK_THROWS_WITH(names_in(known, "torchvison"), Contains("did you mean 'torchvision'?"));
  CHECK_THROWS_WITH(names_in(taken("{resnet_cifar: {model_name: resnet_20}}"), "timm"),
                    Contains("timm has no network like resnet_cifar"));
  CHECK_THROWS_WITH(names_in(taken("{resnet: {model_name: resnet18, variant: d}}"), "torchvision"),
                    Contains("torchvision has no network like resnet (resnet18d)"));
  auto quantized = known;
  quantized.network.quantization.weight_scales[0] = at::ones({1});
  CHECK_THROWS_WITH(names_in(quantized, "timm"), Contains("no quantized networks"));
  auto untold = known;
  untold.network.recipe.clear();
  CHECK_THROWS_WITH(names_in(untold, "timm"), Contains("without a recipe"));
}

TEST_CASE("what timm's network computes otherwise is told", "[inference]") {
  know_everything();
  const auto mobile = taken("{mobilenet_v3: {model_name: mobilenet_v3_small, num_classes: 7}}");
  CHECK_THAT(said_of(mobile, "timm"),
             Contains("timm's mobilenetv3_small_100") && Contains("bn_eps=1e-3"));
  CHECK(said_of(mobile, "torchvision").empty());
}

TEST_CASE("images that timm's VGG pools later are warned of", "[inference][slow]") {
  know_everything();
  const std::string model = "{vgg: {model_name: vgg11_bn, num_classes: 7}}";
  CHECK(said_of(taken(model, {}, 224), "timm").empty());
  const auto large = taken(model, {}, 256);
  CHECK_THAT(said_of(large, "timm"), Contains("images of 256 pixels a side and more"));
  CHECK(said_of(large, "torchvision").empty());
}

TEST_CASE("networks have the names and shapes that timm gives their tensors", "[inference][slow]") {
  know_everything();
  check_names_in_timm(test::recorded("timm_names.txt"));
}

TEST_CASE("networks have the names and shapes of the timm that is installed",
          "[inference][peer][slow][recorded]") {
  const char* const interpreter = std::getenv("COMPOSER_INFERENCE_PYTHON");
  if (interpreter == nullptr) {
    WARN("skipped: COMPOSER_INFERENCE_PYTHON names no Python with timm");
    return;
  }
  know_everything();
  const auto listing =
      test::output_of("tests/inference/peer.py", "names " + joined(in_timm, " "), interpreter);
  check_names_in_timm(listing);
  test::record("timm_names.txt", listing);
}

TEST_CASE("a folder with timm's names is read here as one with ours", "[inference]") {
  know_everything();
  const TemporaryFolder folder;
  const auto network = taken("{mobilenet_v3: {model_name: mobilenet_v3_small, num_classes: 7}}");
  write_network(folder / "net", network.network, network.state, names_in(network, "timm"));
  const auto written = read_safetensors(folder / "net/model.safetensors");
  CHECK(shape_text(written.at("conv_head.weight")) == "1024x576x1x1");
  CHECK(shape_text(written.at("classifier.weight")) == "7x1024");
  const auto images = at::randn({2, 3, 64, 64});
  const auto read = take_network((folder / "net").string());
  CHECK(at::allclose(test::computed(read.network.graph, images),
                     test::computed(network.network.graph, images), 1e-5, 1e-6));
  CHECK(read.state.size() == network.state.size());
  for (const auto& [name, tensor] : network.state) {
    INFO(name);
    REQUIRE(read.state.contains(name));
    CHECK(at::equal(read.state.at(name), tensor));
  }
}

TEST_CASE("weights with timm's names load as those with ours", "[inference][slow]") {
  know_everything();
  const TemporaryFolder folder;
  const auto file = folder / "timm.safetensors";
  for (const std::string name : {"convnext_tiny", "efficientnet_b0", "mobilenet_v3_small"}) {
    INFO(name);
    const auto source = built(recipe_of(model_named(name, 7)));
    const auto tensors = model_tensors(*source);
    for (const auto& [tensor, values] : tensors)
      if (values.is_floating_point()) at::Tensor(values).data().uniform_(0.5, 2);
    write_safetensors(file, in_names_of(*source->names_in("timm"), tensors));
    const auto target = built(recipe_of(model_named(name, 7)));
    const auto said = standard_error_of([&] { load_weights(*target, file); });
    CHECK((said.find("bn_eps") != std::string::npos) == (name == "mobilenet_v3_small"));
    for (const auto& [tensor, values] : model_tensors(*target)) {
      INFO(tensor);
      CHECK(at::equal(values, tensors.at(tensor)));
    }
  }
  const auto fewer = built(recipe_of(model_named("mobilenet_v3_small", 2)));
  CHECK_THROWS_WITH(load_weights(*fewer, file),
                    Contains("classifier.3.weight: [7, 1024] in the file, [2, 1024] in the model"));
  const LoadRules by_their_name{.ignore = {"classifier.bias", "classifier.weight"}};
  CHECK_NOTHROW(load_weights(*fewer, file, by_their_name));
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
  auto networks = in_timm;
  networks.insert(networks.end(), {"resnet18", "resnet50", "efficientnet_b1"});
  CHECK(agrees(interpreter, "timm", networks));
}

}  // namespace
}  // namespace composer::python_names_test
