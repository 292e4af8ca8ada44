#include "algorithms/test_time_augmentation.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/gpu.h"

namespace composer::test_time_augmentation_test {

using test::Fixture;

namespace {

/// Two logits: the top left and the top right pixel of the first channel.
at::Tensor corners(const at::Tensor& images) {
  const auto row = images.select(1, 0).select(1, 0);
  return at::stack({row.select(1, 0), row.select(1, -1)}, 1);
}

struct Counted {
  at::Tensor operator()(const at::Tensor& images) {
    ++passes;
    return corners(images);
  }
  int passes = 0;
};

}  // namespace

TEST_CASE("level 1 is the mean over an image and its mirror image", "[test_time_augmentation]") {
  const auto images = at::arange(2 * 9, at::kFloat).view({2, 1, 3, 3});
  Counted counted;
  const auto mean = mean_over_views(std::ref(counted), images, corners(images), 1, 1);
  CHECK(counted.passes == 1);
  CHECK(at::equal(mean, at::tensor({1.f, 1.f, 10.f, 10.f}).view({2, 2})));
}

TEST_CASE("level 2 adds two shifted windows", "[test_time_augmentation]") {
  // Padded by one reflected pixel, rows and columns are 1 0 1 2 1 of
  //   0 1 2
  //   3 4 5
  //   6 7 8
  // so that the first window's top row is 4 3 4, the last one's 4 5 4.
  const auto images = at::arange(9, at::kFloat).view({1, 1, 3, 3});
  Counted counted;
  const auto mean = mean_over_views(std::ref(counted), images, corners(images), 2, 1);
  CHECK(counted.passes == 5);
  const float plain = 1, windows = (4 + 4) / 2.f;
  CHECK(at::allclose(mean, at::full({1, 2}, (plain + windows) / 2)));
}

TEST_CASE("the windows lie where they should, in either memory order", "[test_time_augmentation]") {
  const auto input = at::randn({3, 3, 9, 7});
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = input.contiguous(format);
    std::vector<at::Tensor> views;
    const Classify classify = [&](const at::Tensor& view) {
      CHECK(view.is_contiguous(format));
      views.push_back(view);
      return view.select(1, 0).flatten(1);
    };
    const auto mean = mean_over_views(classify, images, images.select(1, 0).flatten(1), 2, 2);
    REQUIRE(views.size() == 5);
    const auto padded = at::reflection_pad2d(input, {2, 2, 2, 2});
    CHECK(at::equal(views[0], input.flip(3)));
    CHECK(at::equal(views[1], padded.slice(2, 0, 9).slice(3, 0, 7)));
    CHECK(at::equal(views[2], views[1].flip(3)));
    CHECK(at::equal(views[3], padded.slice(2, 4, 13).slice(3, 4, 11)));
    CHECK(at::equal(views[4], views[3].flip(3)));
    const auto expected =
        0.25 * (input + views[0]) + 0.125 * (views[1] + views[2] + views[3] + views[4]);
    CHECK(at::allclose(mean, expected.select(1, 0).flatten(1)));
  }
}

TEST_CASE("images too small to be shifted are refused", "[test_time_augmentation]") {
  const auto images = at::zeros({1, 1, 3, 3});
  CHECK_THROWS_AS(mean_over_views(corners, images, corners(images), 2, 3), UserError);
  CHECK_NOTHROW(mean_over_views(corners, images, corners(images), 2, 2));
}

TEST_CASE("the least confident are those with the flattest logits", "[test_time_augmentation]") {
  const auto logits = at::tensor({9.f, 0.f, 0.f, 1.f, 0.f, 3.f, 2.f, 2.f}).view({4, 2});
  CHECK(at::equal(std::get<0>(least_confident(logits, 0.5).sort()), at::tensor({1, 3}, at::kLong)));
  CHECK(least_confident(logits, 0.26).numel() == 2);
  CHECK(least_confident(logits, 0.25).item<int64_t>() == 3);
  CHECK(least_confident(logits, 0).numel() == 0);
}

TEST_CASE("evaluation and prediction answer with the mean, for the share asked for",
          "[test_time_augmentation][gpu]") {
  const auto device = GENERATE(at::kCPU, at::kCUDA);
  if (device == at::kCUDA && !test::has_gpu()) return;
  const auto precision = GENERATE(Precision::fp32, Precision::amp_bf16);
  const at::NoGradGuard no_grad;
  Fixture f;
  auto& state = f.state;
  state.device = device;
  state.precision = precision;
  state.model->to(device);
  state.model->eval();
  state.batch.input = state.batch.input.to(device);
  const auto forward = [&](const at::Tensor& images) {
    const Autocast autocast(precision, device);
    return state.model->forward(images);
  };
  const auto plain = forward(state.batch.input);
  const auto all = mean_over_views(forward, state.batch.input, plain, 2, 1);
  const bool predicts = GENERATE(false, true);
  const auto outputs = [&](double share) {
    state.outputs = plain;
    TestTimeAugmentation algorithm({.level = 2, .share = share});
    predicts ? algorithm.predict_after_forward(state) : algorithm.eval_after_forward(state);
    return state.outputs;
  };
  CHECK(at::equal(outputs(1), all));
  CHECK(all.scalar_type() == at::kFloat);
  CHECK_FALSE(at::allclose(all, plain.to(at::kFloat)));
  CHECK(at::equal(outputs(0), plain));

  const auto half = outputs(0.5);
  const auto unsure = least_confident(plain, 0.5);
  const double tolerance = precision == Precision::fp32 && device == at::kCPU ? 1e-5 : 2e-2;
  const auto expected = plain.to(at::kFloat).index_copy(0, unsure, all.index_select(0, unsure));
  CHECK(at::allclose(half, expected, tolerance, tolerance));
}

}  // namespace composer::test_time_augmentation_test
