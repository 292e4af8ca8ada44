// composer model info.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "look.h"
#include "tests/temporary_folder.h"

namespace composer::model_info_test {

using nlohmann::json;

namespace {

json info(const TemporaryFolder& folder, const std::string& words) {
  const auto shown = look(folder.path(), split("model info --json " + words));
  INFO(words << '\n' << shown.errors);
  REQUIRE(shown.status == 0);
  CHECK(std::ranges::count(shown.output, '\n') == 1);
  return json::parse(shown.output);
}

}  // namespace

TEST_CASE("model info knows networks by name, for any batch and size", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto resnet50 = info(folder, "resnet50");
  CHECK(resnet50.at("parameters") == 25557032);
  CHECK(resnet50.at("flops_forward") == 8178368512);
  CHECK(resnet50.at("flops_step") == 24299077632);
  CHECK(resnet50.at("input") == json{1, 3, 224, 224});
  CHECK(resnet50.at("receptive_field") == json{427, 427});
  const auto& layers = resnet50.at("layers");
  CHECK(layers.at(0).at("layer") == "conv1");
  CHECK(layers.at(0).at("operations").at(0) == "conv2d");
  CHECK(layers.at(0).at("output") == json{1, 64, 112, 112});
  CHECK(layers.back().at("parameters") == 2049000);
  int64_t parameters = 0, flops = 0;
  for (const auto& layer : layers) {
    parameters += layer.at("parameters").get<int64_t>();
    flops += layer.at("flops_step").get<int64_t>();
  }
  CHECK(parameters == resnet50.at("parameters"));
  CHECK(flops == resnet50.at("flops_step"));

  const auto two = info(folder, "resnet50 --batch_size 2");
  CHECK(two.at("flops_forward") == 2 * resnet50.at("flops_forward").get<int64_t>());
  CHECK(two.at("activation_bytes") == 172031488);  // torchvision's, as Python's autograd saves them
  CHECK(two.at("layers").at(0).at("output") == json{2, 64, 112, 112});

  CHECK(info(folder, "resnet18 --resolution 64").at("input") == json{1, 3, 64, 64});
  CHECK(info(folder, "resnext50_32x4d").at("parameters") == 25028904);
  CHECK(info(folder, "wide_resnet50_2").at("parameters") == 68883240);
  CHECK(info(folder, "resnet_56").at("parameters") == 855770);
  CHECK(info(folder, "resnet56").at("input") == json{1, 3, 32, 32});
  CHECK(info(folder, "airbench").at("parameters") > 1000000);
  CHECK(info(folder, "mnist_classifier").at("input") == json{1, 1, 28, 28});
}

TEST_CASE("model info shows the network that a recipe trains, without its data", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto plain = info(folder, "-f resnet50");
  CHECK(plain.at("batch_size") == 2048);
  CHECK(plain.at("flops_forward") == 2048 * 8178368512);
  const auto blurred = info(folder, "-f resnet50 --algorithms blurpool --batch_size 1");
  CHECK(blurred.at("parameters") == 25557032);
  CHECK(blurred.at("flops_forward") > 8178368512);
  const auto small = info(folder,
                          "-f resnet50 --train_dataset.imagenet.crop_size 64 --batch_size 1 "
                          "--freeze conv1.* --algorithms squeeze_excite");
  CHECK(small.at("input") == json{1, 3, 64, 64});
  CHECK(small.at("parameters") > 25557032);
  CHECK(small.at("parameters").get<int64_t>() - small.at("trainable_parameters").get<int64_t>() ==
        64 * 3 * 49);
}

TEST_CASE("model info's table fits the terminal and ends with totals", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto shown = look(folder.path(), split("model info resnet18 --batch_size 4"));
  REQUIRE(shown.status == 0);
  for (const char* text : {"resnet18, input 4x3x224x224", "layer1.0.conv1", "conv2d", " 64x56x56",
                           "36.9K", " sees", " 435\n", "parameters        11.7 M",
                           "14.5 GFLOPs, 3.63 GFLOPs an image", "435x435 pixels"}) {
    INFO(text << '\n' << shown.output);
    CHECK(shown.output.find(text) != std::string::npos);
  }
  std::istringstream lines(shown.output);
  for (std::string line; std::getline(lines, line);) CHECK(columns_of(line) <= 80);
}

TEST_CASE("model info says what is wrong with what it is given", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto complaint = [&](const std::string& words) {
    const auto shown = look(folder.path(), split("model info " + words));
    CHECK(shown.status == 2);
    CHECK(shown.output.empty());
    return shown.errors;
  };
  const auto unknown = complaint("resnet5");
  CHECK(unknown.find("no network 'resnet5'; did you mean 'resnet5") != std::string::npos);
  CHECK(unknown.find("resnext50_32x4d") != std::string::npos);
  CHECK(complaint("").find("or -f RECIPE") != std::string::npos);
  CHECK(complaint("resnet50 --seed 1").find("only with -f") != std::string::npos);
  CHECK(complaint("resnet50 --batch_size 0").find("batch_size") != std::string::npos);
  CHECK(complaint("-f resnet50 --sed 1").find("seed") != std::string::npos);
  CHECK(complaint("mnist_classifier --resolution 2").find("pixels") != std::string::npos);
  const auto action = look(folder.path(), split("model inf"));
  CHECK(action.status == 2);
  CHECK(action.errors.find("info") != std::string::npos);
}

}  // namespace composer::model_info_test
