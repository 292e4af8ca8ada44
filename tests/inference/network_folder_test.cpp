#include "inference/network_folder.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "composer/checkpoint/weights.h"
#include "networks.h"
#include "tests/temporary_folder.h"

namespace composer::network_folder_test {
namespace {

using Catch::Matchers::Contains;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a network comes back from its folder as it was", "[inference]") {
  for (const auto& given : test::network_cases()) {
    CAPTURE(given.name);
    const TemporaryFolder folder;
    const auto model = test::settled(given);
    const auto network = test::trained(given, *model);
    write_network(folder / "net", network);
    const auto read = read_network(folder / "net");
    const auto images = test::random_images(given, 2);
    CHECK(at::equal(test::computed(read.graph, images), test::computed(network.graph, images)));
    CHECK(read.class_names == network.class_names);
    CHECK(read.metrics == network.metrics);
    CHECK(read.preparation.normalization.mean == network.preparation.normalization.mean);
    CHECK(read.preparation.size == network.preparation.size);
    CHECK(read.quantization.empty());
  }
}

TEST_CASE("codes and their scales come back", "[inference]") {
  const TemporaryFolder folder;
  const auto given = test::network_cases()[3];
  auto network = test::trained(given, *test::settled(given));
  const auto weight = *network.graph.operations[0].inputs[1];
  auto& value = network.graph.values[weight];
  value.constant = at::randint(-127, 128, value.shape).to(at::kChar);
  value.type = at::kChar;
  network.quantization.activation_bits = 7;
  network.quantization.activations[network.graph.input] = {0.05, 64};
  network.quantization.weight_scales[weight] = at::rand({value.shape[0]});
  write_network(folder / "net", network);
  const auto read = read_network(folder / "net").quantization;
  CHECK(read.activation_bits == 7);
  CHECK(read.activations.at(network.graph.input).zero_point == 64);
  CHECK(read.activations.at(network.graph.input).scale == 0.05);
  CHECK(at::equal(read.weight_scales.at(weight), network.quantization.weight_scales.at(weight)));
}

TEST_CASE("a folder's weights load into a model, codes do not", "[inference]") {
  const TemporaryFolder folder;
  const auto given = test::network_cases()[3];
  const auto model = test::settled(given);
  auto network = test::trained(given, *model);
  write_network(folder / "net", network);
  const auto file = weights_file(folder / "net");
  CHECK(file == folder / "net/model.safetensors");
  CHECK(weights_file(file) == file);
  const auto loaded = given.make();
  load_weights(*loaded, file);
  loaded->eval();
  const auto images = test::random_images(given, 2);
  const at::NoGradGuard no_grad;
  CHECK(at::equal(loaded->forward(images), model->forward(images)));

  auto& value = network.graph.values[*network.graph.operations[0].inputs[1]];
  value.constant = value.constant.to(at::kChar), value.type = at::kChar;
  write_network(folder / "net", network);
  CHECK_THROWS_WITH(load_weights(*loaded, file),
                    Contains("tensors of integers") && Contains("conv1.weight"));
  folder.write("net/manifest.json", "{}");
  CHECK(weights_file(folder / "net") == folder / "net");
}

TEST_CASE("a network takes the place of an older one, and of what a kill left", "[inference]") {
  const TemporaryFolder folder;
  const auto cases = test::network_cases();
  const auto blurred = std::ranges::find(cases, "blurpool", &test::NetworkCase::name);
  write_network(folder / "net", test::trained(*blurred, *test::settled(*blurred)));
  CHECK(std::filesystem::exists(folder / "net/constants.safetensors"));
  const auto network = test::trained(cases[3], *test::settled(cases[3]));
  write_network(folder / "net", network);
  CHECK(read_network(folder / "net").classes() == network.classes());
  CHECK_FALSE(std::filesystem::exists(folder / "net/constants.safetensors"));

  std::filesystem::create_directories(folder / "killed/.unfinished_network");
  folder.write("killed/.unfinished_network/constants.safetensors", "half");
  folder.write("killed/model.safetensors", "another's");
  CHECK_THROWS_WITH(read_network(folder / "killed"), Contains("has no network.json"));
  write_network(folder / "killed", network);
  CHECK(read_network(folder / "killed").classes() == network.classes());
  const auto entries = [&] {
    return std::distance(std::filesystem::directory_iterator(folder / "killed"), {});
  };
  CHECK(entries() == 2);

  std::filesystem::remove(folder / "killed/model.safetensors");
  std::filesystem::create_directories(folder / "killed/model.safetensors/in_the_way");
  CHECK_THROWS_AS(write_network(folder / "killed", network), RunError);
  CHECK(entries() == 2);
}

TEST_CASE("a folder that is damaged or none is named, with what is wrong", "[inference]") {
  const TemporaryFolder folder;
  const auto given = test::network_cases()[3];
  const auto network = test::trained(given, *test::settled(given));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("net: there is no such folder"));
  write_network(folder / "net", network);
  CHECK_THROWS_WITH(read_network(folder / "net/model.safetensors"),
                    Contains("model.safetensors: is a file, and no folder") && Contains("/net?"));
  const auto good = text_of(folder / "net/network.json");
  const auto put = [&](const std::string& text) {
    std::ofstream(folder / "net/network.json", std::ios::binary) << text;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  for (size_t bytes : {size_t{0}, size_t{1}, good.size() / 3, good.size() - 3}) {
    put(good.substr(0, bytes));
    CHECK_THROWS_AS(read_network(folder / "net"), UserError);
  }
  put(with("\"format_version\": 1", "\"format_version\": 7"));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("format version 7"));
  put(with("\"format_version\": 1", "\"format_version\": [1]"));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("format version an array"));
  put(with("\"format_version\": 1",
           "\"format_version\": " + std::string(300'000, '[') + std::string(300'000, ']')));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("is no description of a network"));
  put(with("\"conv2d\"", "\"conv9d\""));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("no operation 'conv9d'"));
  put(with("\"tensor\": \"conv1.weight\"", "\"tensor\": \"conv7.weight\""));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("there is no tensor 'conv7.weight'"));
  put(with("\"channels\": 3", "\"channels\": 1"));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("is damaged"));
  put(with("\"inputs\": [\n     0,", "\"inputs\": [\n     null,"));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("lacks input 0"));
  put(with("\"height\": 32", "\"height\": 31"));
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("does not take one of the images"));
  put(good);
  CHECK_NOTHROW(read_network(folder / "net"));
  auto weights = text_of(folder / "net/model.safetensors");
  weights[weights.size() / 2] ^= 1;
  std::ofstream(folder / "net/model.safetensors", std::ios::binary) << weights;
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("model.safetensors: is damaged"));
  std::filesystem::remove(folder / "net/network.json");
  std::filesystem::create_symlink("network.json", folder / "net/network.json");
  CHECK_THROWS_WITH(read_network(folder / "net"), Contains("network.json: cannot be read: "));
  std::filesystem::create_directory(folder / "other");
  folder.write("other/file.txt", "mine");
  CHECK_THROWS_WITH(write_network(folder / "other", network), Contains("holds other things"));
}

}  // namespace
}  // namespace composer::network_folder_test
