// A quantized network's results, by any number of threads.
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "inference/quantization/codes.h"
#include "inference/runtime.h"
#include "quantized.h"

namespace composer::threads_test {
namespace {

constexpr int64_t most_images = 9;

/// For 1 to most_images images; the network is packed for that many threads, too.
std::vector<at::Tensor> logits_by(int threads, const TrainedNetwork& network,
                                  const at::Tensor& images) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  const Runtime runtime(network);
  std::vector<at::Tensor> logits;
  for (int64_t count = 1; count <= most_images; ++count)
    logits.push_back(runtime.logits(images.slice(0, 0, count)));
  at::set_num_threads(before);
  return logits;
}

void check_threads(const test::NetworkCase& given) {
  const auto model = test::settled(given);
  const auto trained = test::trained(given, *model);
  const auto images = test::random_images(given, most_images);
  for (const int64_t bits : {8, 7}) {
    if (bits > activation_bits_here()) continue;  // sums of products would overflow
    const auto network = test::quantized(trained, images, bits);
    const auto expected = logits_by(1, network, images);
    CHECK(test::relative(expected.back(), test::simulated(network, images)) < 0.08);
    for (const int threads : {2, 3, 8}) {
      const auto found = logits_by(threads, network, images);
      for (size_t i = 0; i < found.size(); ++i) {
        CAPTURE(given.name, bits, threads, i + 1);
        if (!at::equal(found[i], expected[i])) UNSCOPED_INFO(test::relative(found[i], expected[i]));
        CHECK(at::equal(found[i], expected[i]));
      }
    }
  }
}

TEST_CASE("a quantized network gives one thread's results to the bit",
          "[inference][runtime][threads]") {
  for (const auto& given : test::network_cases())
    if (given.name == "resnet_20" || given.name == "squeeze_excite" || given.name == "factorize")
      check_threads(given);
}

TEST_CASE("every quantized network gives one thread's results to the bit",
          "[inference][runtime][threads][long]") {
  for (const auto& given : test::network_cases()) check_threads(given);
}

TEST_CASE("a quantized network called from a parallel region gives the same results",
          "[inference][runtime][threads]") {
  const auto given = test::network_cases()[3];
  const auto model = test::settled(given);
  const auto images = test::random_images(given, 4);
  const auto network = test::quantized(test::trained(given, *model), images, 7);
  const auto expected = logits_by(1, network, images.repeat({3, 1, 1, 1}))[3];
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  const Runtime runtime(network);
  std::vector<at::Tensor> found(3);
  at::parallel_for(0, 3, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      found[static_cast<size_t>(i)] = runtime.logits(images.slice(0, 0, 4));
  });
  at::set_num_threads(before);
  for (const auto& logits : found) CHECK(at::equal(logits, expected));
}

}  // namespace
}  // namespace composer::threads_test
