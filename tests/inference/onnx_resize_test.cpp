// ONNX and TorchScript files that resize and crop their images themselves, against the evaluation's
// own pixels.
#include <torch/csrc/jit/serialization/import.h>

#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/samples/transform.h"
#include "inference/onnx/onnx_file.h"
#include "inference/torchscript.h"
#include "networks.h"
#include "onnx_interpreter.h"
#include "onnx_peer.h"
#include "tests/temporary_folder.h"

namespace composer::onnx_resize_test {
namespace {

using Catch::Matchers::Contains;

constexpr ImageSize crop{32, 28};
constexpr int64_t shorter_side = 35;

/// A network whose logits are the pixels that it is given.
TrainedNetwork pixels_network(int64_t channels = 3, const std::string& filter = "triangle") {
  auto network = test::network_of([](const at::Tensor& x) { return op::flatten(op::relu(x)); },
                                  at::zeros({1, channels, crop.height, crop.width}));
  network.preparation = {.channels = channels,
                         .resize_size = shorter_side,
                         .size = crop,
                         .normalization = {std::vector<double>(static_cast<size_t>(channels), 0),
                                           std::vector<double>(static_cast<size_t>(channels), 1)}};
  network.resize_filter = filter;
  return network;
}

/// Smooth and rough parts; uint8 [count, height, width, channels].
at::Tensor pictures(int64_t count, ImageSize size, int64_t channels = 3) {
  const auto coarse = at::rand({count, channels, 5, 4}) * 200;
  const auto smooth =
      at::upsample_bilinear2d(coarse, at::IntArrayRef{size.height, size.width}, false);
  return (smooth + at::rand(smooth.sizes()) * 55).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
}

/// What the evaluation makes of them: [count, channels * pixels].
at::Tensor prepared(const at::Tensor& images, const TrainedNetwork& network) {
  const auto& preparation = network.preparation;
  const Transform transform{.kind = Transform::Kind::center_crop,
                            .resize_size = preparation.resize_size,
                            .size = preparation.size,
                            .filter = resize_filter_words.at(network.resize_filter)};
  Pipeline pipeline(transform, preparation.channels);
  const auto result =
      at::empty({images.size(0), crop.height, crop.width, preparation.channels}, at::kByte);
  for (int64_t i = 0; i < images.size(0); ++i) {
    const auto image = images[i];
    const StoredImage stored{
        .bytes = {image.const_data_ptr<uint8_t>(), static_cast<size_t>(image.numel())},
        .size = {image.size(0), image.size(1)},
        .channels = preparation.channels};
    pipeline.run(stored, preparation.size, {}, result[i].mutable_data_ptr<uint8_t>());
  }
  return result.permute({0, 3, 1, 2}).flatten(1).to(at::kFloat);
}

/// Landscape and portrait, larger and smaller than the crop; what is left beside the crop is 0 to 3
/// pixels more than a multiple of 4; a row of pixels.
const std::vector<ImageSize> sizes{{35, 35}, {35, 36},  {70, 74},  {75, 100}, {100, 75},  {61, 45},
                                   {17, 20}, {20, 17},  {36, 400}, {400, 36}, {131, 137}, {33, 34},
                                   {1, 7},   {200, 90}, {41, 40},  {64, 67},  {64, 69},   {64, 70}};

const auto ways = {Preprocessing::resize, Preprocessing::portable};

/// How far levels may be off: enlarging, one rounding of the first pass may weigh in almost whole.
double most_levels(ImageSize size) {
  return std::min(size.height, size.width) < shorter_side ? 2 : 1;
}

}  // namespace

TEST_CASE("an ONNX file that resizes its images has the evaluation's pixels", "[inference][onnx]") {
  at::manual_seed(7);
  const TemporaryFolder folder;
  for (const auto way : ways)
    for (const auto& [channels, filter] :
         {std::pair<int64_t, std::string>{1, "triangle"}, {3, "triangle"}, {3, "bicubic"}}) {
      const auto network = pixels_network(channels, filter);
      write_onnx(folder / "net.onnx", network, {.preprocessing = way});
      const auto file = test::read_onnx(folder / "net.onnx");
      CHECK(file.operator_set == (way == Preprocessing::resize ? 18 : 17));
      CHECK(file.inputs.at(0).shape ==
            std::vector<std::string>{"N", "H", "W", std::to_string(channels)});
      for (const auto size : sizes) {
        CAPTURE(static_cast<int>(way), channels, filter, size.height, size.width);
        const auto images = pictures(2, size, channels);
        const auto off = (test::interpreted(file, images) - prepared(images, network)).abs();
        CHECK(off.max().item<double>() <= most_levels(size));
        CHECK(off.mean().item<double>() < 0.35);
      }
    }
}

TEST_CASE("ONNX Runtime and OpenVINO resize as the evaluation does", "[inference][onnx][peer]") {
  at::manual_seed(8);
  test::OnnxPeers peers;
  std::map<std::string, double> most;
  for (const auto& [way, filter] :
       {std::pair<Preprocessing, std::string>{Preprocessing::resize, "triangle"},
        {Preprocessing::portable, "triangle"},
        {Preprocessing::resize, "bicubic"},
        {Preprocessing::portable, "bicubic"}})
    for (const auto size : sizes) {
      const auto network = pixels_network(3, filter);
      const bool portable = way == Preprocessing::portable;
      const auto name = std::string(portable ? "portable " : "resize ") + filter + " of " +
                        std::to_string(size.height) + " x " + std::to_string(size.width);
      const auto images = pictures(3, size);
      const auto pixels = prepared(images, network);
      write_onnx(peers.file_for(name, images, pixels), network, {.preprocessing = way});
      most[name] = (most_levels(size) + 0.01) / pixels[0].max().item<double>();
    }
  const auto results = peers.results();
  if (!results) return;
  for (const auto& [name, levels] : most) {
    CAPTURE(name);
    for (const double distance : results->at(name).at("onnxruntime")) CHECK(distance < levels);
    if (name.starts_with("resize")) continue;  // OpenVINO leaves antialiasing out
    for (const double distance : results->at(name).at("openvino")) CHECK(distance < levels);
  }
}

TEST_CASE("a TorchScript file that resizes its images has the evaluation's pixels", "[inference]") {
  at::manual_seed(9);
  const TemporaryFolder folder;
  for (const std::string filter : {"triangle", "bicubic"}) {
    const auto network = pixels_network(3, filter);
    write_torchscript(folder / "net.pt", network, Preprocessing::resize);
    auto module = torch::jit::load(folder / "net.pt");
    for (const auto size : sizes) {
      CAPTURE(filter, size.height, size.width);
      const auto images = pictures(2, size);
      const auto off = (module.forward({images}).toTensor() - prepared(images, network)).abs();
      CHECK(off.max().item<double>() <= most_levels(size));
    }
  }
  const auto network = pixels_network();
  write_torchscript(folder / "bytes.pt", network, Preprocessing::normalize);
  const auto images = pictures(2, crop);
  CHECK(at::equal(torch::jit::load(folder / "bytes.pt").forward({images}).toTensor(),
                  images.permute({0, 3, 1, 2}).flatten(1).to(at::kFloat)));
  auto bytes = torch::jit::load(folder / "bytes.pt");
  for (const auto& wrong : {images.to(at::kFloat), pictures(2, {40, 40}), pictures(2, crop, 1)})
    CHECK_THROWS_WITH(bytes.forward({wrong}), Contains("images are uint8 [N, 32, 28, 3]"));
}

TEST_CASE("a preparation that no ONNX file can do is refused", "[inference][onnx]") {
  const TemporaryFolder folder;
  for (const auto way : ways) {
    const auto write = [&](const TrainedNetwork& network) {
      write_onnx(folder / "net.onnx", network, {.preprocessing = way});
    };
    auto network = pixels_network();
    network.resize_filter = "area";
    CHECK_THROWS_WITH(write(network),
                      Contains("it resizes by area; take --preprocessing normalize"));
    network = pixels_network();
    network.preparation.resize_size = -1;
    CHECK_THROWS_WITH(write(network), Contains("its evaluation does not resize images"));
    network.preparation.resize_size = 30;
    CHECK_THROWS_WITH(write(network), Contains("pads images of 30 pixels to a larger crop"));
  }
}

TEST_CASE("an ONNX file gives probabilities on request", "[inference][onnx]") {
  const auto given = test::network_cases()[3];
  const auto network = test::trained(given, *test::settled(given));
  const TemporaryFolder folder;
  write_onnx(folder / "net.onnx", network, {.probabilities = true});
  const auto file = test::read_onnx(folder / "net.onnx");
  REQUIRE(file.outputs.size() == 2);
  CHECK(file.outputs[1].name == "probabilities");
  const auto images = test::random_images(given, 3);
  const auto logits = test::interpreted(file, images, 0);
  CHECK(at::allclose(test::interpreted(file, images, 1), logits.softmax(1)));
}

}  // namespace composer::onnx_resize_test
