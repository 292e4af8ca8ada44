#include "onnx_peer.h"

#include "inference/onnx/onnx_file.h"
#include "networks.h"
#include "onnx_interpreter.h"
#include "range_codes.h"

namespace composer::onnx_peer_test {
namespace {

void add(test::OnnxPeers& peers, const std::string& name, const TrainedNetwork& network,
         const at::Tensor& images, const at::Tensor& logits) {
  write_onnx(peers.file_for(name, images, logits), network,
             {.preprocessing = images.scalar_type() == at::kByte ? Preprocessing::normalize
                                                                 : Preprocessing::none});
}

TEST_CASE("ONNX Runtime and OpenVINO compute a network's logits", "[inference][onnx][peer]") {
  test::OnnxPeers peers;
  const at::NoGradGuard no_grad;
  auto cases = test::network_cases();
  cases.push_back(test::vgg_case());
  for (const auto& given : cases) {
    const auto model = test::settled(given);
    const auto network = test::trained(given, *model);
    const auto images = test::random_images(given, 3);
    add(peers, given.name, network, images, model->forward(images));
    const auto bytes =
        at::randint(0, 256, {3, given.image[1], given.image[2], given.image[0]}, at::kByte);
    const auto prepared = ((bytes.to(at::kFloat) - 120) / 60).permute({0, 3, 1, 2});
    add(peers, given.name + " of bytes", network, bytes, model->forward(prepared));
  }
  const auto results = peers.results();
  if (!results) return;
  CHECK(results->size() == 2 * cases.size());
  for (const auto& [name, result] : results->items()) {
    CAPTURE(name);
    test::check_distances(result, 1e-4);
  }
}

TEST_CASE("an activation that falls and rises is computed behind its max pool",
          "[inference][onnx][peer]") {
  for (const std::string activation : {"gelu", "silu"}) {
    const test::NetworkCase given{activation,
                                  [&] {
                                    return std::make_shared<Airbench>(Airbench::Params{
                                        .widths = {16, 32}, .activation = activation});
                                  },
                                  {3, 32, 32}};
    test::OnnxPeers peers;
    const at::NoGradGuard no_grad;
    const auto model = test::settled(given);
    for (const auto& buffer : model->named_buffers())
      if (buffer.key().ends_with("running_mean")) buffer.value().fill_(4);
    const auto network = test::trained(given, *model);
    const auto images = test::random_images(given, 3);
    add(peers, given.name, network, images, model->forward(images));
    const auto results = peers.results();
    if (!results) return;
    CAPTURE(activation);
    test::check_distances(results->at(activation), 1e-4);
  }
}

TEST_CASE("ONNX Runtime and OpenVINO compute with a network's codes", "[inference][onnx][peer]") {
  test::OnnxPeers peers;
  const at::NoGradGuard no_grad;
  for (const size_t index : {0, 1, 3, 5}) {
    const auto given = test::network_cases()[index];
    const auto network = test::with_codes(test::trained(given, *test::settled(given)),
                                          test::random_images(given, 4));
    const auto images = test::random_images(given, 3);
    add(peers, given.name, network, images, test::computed_by_codes(network, images));
  }
  const auto results = peers.results();
  if (!results) return;
  for (const auto& [name, result] : results->items()) {
    CAPTURE(name, result.dump());
    test::check_distances(result, 5e-2);
    CHECK(result.at("operators").contains("QLinearConv"));
    for (const char* left : {"Conv", "Add", "Relu", "Gemm"})
      CHECK(!result.at("operators").contains(left));
  }
}

}  // namespace
}  // namespace composer::onnx_peer_test
