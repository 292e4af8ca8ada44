#include "inference/torchscript.h"

#include <torch/csrc/jit/serialization/import.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "networks.h"
#include "peer.h"
#include "tests/temporary_folder.h"

namespace composer::torchscript_test {
namespace {

using Catch::Matchers::Contains;

/// Every operation that depends on the input and has a form of its own, once.
class AllOperations : public Model {
 public:
  AllOperations()
      : conv_(add<Conv2d>("conv", Conv2dOptions{.in_channels = 3,
                                                .out_channels = 8,
                                                .kernel = {3, 2},
                                                .stride = {2, 1},
                                                .padding = {1, 0},
                                                .dilation = {1, 2}})),
        fc_(add<Linear>("fc", 16, 5)),
        mean_(register_buffer("mean", at::full({8}, 0.1))),
        variance_(register_buffer("variance", at::full({8}, 2.0))),
        line_(register_parameter("line", at::rand({16}) + 0.5)) {}

  at::Tensor forward(const at::Tensor& input) override {
    const auto x = conv_(input);
    const auto normed = op::batch_norm(op::gelu(x), {}, {}, mean_, variance_, {.eps = 1e-3});
    const auto grouped = op::group_norm(normed, {}, {}, {.groups = 4});
    const auto both = op::cat({op::relu(grouped), op::scale(x, 0.125)});
    const auto pooled = op::add(
        op::max_pool2d(both, {.kernel = {3, 3},
                              .stride = {2, 2},
                              .padding = {1, 1},
                              .dilation = {1, 1},
                              .ceil_mode = true}),
        op::avg_pool2d(both,
                       {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}));
    const auto gate = op::unsqueeze(op::sigmoid(op::mean(pooled)));
    const auto corners = op::adaptive_avg_pool2d(op::multiply(pooled, gate), {{1, 1}});
    return fc_(op::layer_norm(op::flatten(corners), line_, line_, {.features = 16}));
  }
  int64_t num_classes() const override { return 5; }

 private:
  Slot &conv_, &fc_;
  at::Tensor mean_, variance_, line_;
};

std::vector<test::NetworkCase> all_cases() {
  auto cases = test::network_cases();
  cases.push_back(
      {"all operations", [] { return std::make_shared<AllOperations>(); }, {3, 20, 23}});
  return cases;
}

at::Tensor answer(torch::jit::Module& module, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  return module.forward({images}).toTensor();
}

TEST_CASE("a TorchScript file loads without this library and computes the same",
          "[inference][slow]") {
  for (const auto& given : all_cases()) {
    CAPTURE(given.name);
    const TemporaryFolder folder;
    const auto model = test::settled(given);
    const auto network = test::trained(given, *model);
    const auto path = (folder / "net.pt").string();
    write_torchscript(path, network);
    torch::jit::ExtraFilesMap extra{{"network.json", ""}};
    auto module = torch::jit::load(path, at::kCPU, extra);
    CHECK_FALSE(module.is_training());
    CHECK(module.parameters().size() == 0);
    for (const int64_t count : {1, 3}) {
      const auto images = test::random_images(given, count);
      const at::NoGradGuard no_grad;
      CHECK(test::relative(answer(module, images), model->forward(images)) < 1e-4);
    }
    const auto json = nlohmann::json::parse(extra.at("network.json"));
    CHECK(json.at("class_names") == network.class_names);
    CHECK(json.at("preparation").at("height") == given.image[1]);
    CHECK(json.at("preparation").at("mean") == network.preparation.normalization.mean);
    CHECK(json.at("metrics").at("metrics/eval/Accuracy") == 0.75);
  }
}

TEST_CASE("class names of any bytes are in a TorchScript file", "[inference]") {
  const TemporaryFolder folder;
  const auto given = test::network_cases()[3];
  auto network = test::trained(given, *test::settled(given));
  network.class_names[0] = "\xff\"\n";
  write_torchscript((folder / "net.pt").string(), network);
  torch::jit::ExtraFilesMap extra{{"network.json", ""}};
  torch::jit::load((folder / "net.pt").string(), at::kCPU, extra);
  CHECK(nlohmann::json::parse(extra.at("network.json")).at("class_names").size() == 10);
}

TEST_CASE("what TorchScript cannot be given is named", "[inference]") {
  const TemporaryFolder folder;
  const auto path = (folder / "net.pt").string();
  const auto given = test::network_cases()[3];
  auto network = test::trained(given, *test::settled(given));
  auto quantized = network;
  quantized.quantization.weight_scales[*network.graph.operations[0].inputs[1]] = at::ones({16});
  CHECK_THROWS_WITH(write_torchscript(path, quantized), Contains("a quantized network"));

  auto& first = network.graph.operations[0];
  first.kind = OperationKind::standardize_weight, first.options = StandardizeOptions{1e-5};
  first.inputs.resize(1);
  CHECK_THROWS_WITH(write_torchscript(path, network),
                    Contains("layer 'conv1'") && Contains("standardize_weight"));
  CHECK_THROWS_AS(write_torchscript(path, network), UserError);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_THROWS_AS(
      write_torchscript((folder / "none/net.pt").string(), test::trained(given, *given.make())),
      RunError);
}

TEST_CASE("Python's torch loads a TorchScript file and agrees", "[inference][peer][slow]") {
  if (!test::has_python()) {
    WARN("skipped: no Python with torch in .deps");
    return;
  }
  const TemporaryFolder folder;
  int count = 0;
  auto cases = all_cases();
  cases.push_back(test::vgg_case());
  for (const auto& given : cases) {
    const auto model = test::settled(given);
    const auto name = "net" + std::to_string(count++);
    write_torchscript((folder / (name + ".pt")).string(), test::trained(given, *model));
    test::write_question(folder / (name + ".safetensors"), *model, test::random_images(given, 3));
  }
  CHECK(test::ask_peer(test::python(), "torchscript " + folder.path().string()));
}

}  // namespace
}  // namespace composer::torchscript_test
