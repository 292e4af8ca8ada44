#include "composer/run/image_fit.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "nn/network/layers.h"

namespace composer::image_fit_test {
namespace {

/// Says what an epoch consists of.
class FakeLoader : public Loader {
 public:
  FakeLoader(ImageSize size, int64_t samples, int64_t batches)
      : size_(size), samples_(samples), batches_(batches) {}

  int64_t batches_per_epoch() const override { return batches_; }
  int64_t samples_per_epoch() const override { return samples_; }
  ImageSize image_size() const override { return size_; }
  const Normalization& normalization() const override { return normalization_; }
  void start(int64_t, int64_t, SizePlan) override {}
  void add_transform(SampleTransform) override {}
  std::optional<RawBatch> next() override { return std::nullopt; }

 private:
  ImageSize size_;
  int64_t samples_, batches_;
  Normalization normalization_{{0, 0, 0}, {1, 1, 1}};
};

/// Halves images without padding, drops elements, normalises.
class Halving : public Model {
 public:
  Halving() {
    add<Conv2d>("conv", Conv2dOptions{3, 4, {2, 2}, {2, 2}});
    add<BatchNorm2d>("norm", 4);
    add<AdaptiveAvgPool2d>("pool");
  }
  at::Tensor forward(const at::Tensor& input) override {
    return through_slots(at::dropout(input, 0.5, is_training()));
  }
  int64_t num_classes() const override { return 4; }
  int64_t stride() const override { return 2; }
};

TrainerOptions options(int64_t batch_size, const std::string& duration = "2ep",
                       int64_t grad_accum = 1) {
  TrainerOptions options;
  options.train_batch_size = batch_size;
  options.max_duration = *Time::parse(duration);
  options.grad_accum = grad_accum;
  return options;
}

TEST_CASE("images of which a layer gets no pixels are refused before the run", "[image_fit]") {
  Halving model;
  for (const ImageSize size : {ImageSize{2, 2}, {3, 2}, {64, 64}})
    CHECK_NOTHROW(check_image_size(model, FakeLoader(size, 8, 2)));
  CHECK_THROWS_AS(check_image_size(model, FakeLoader({1, 8}, 8, 2)), UserError);
  CHECK_THROWS_WITH(check_image_size(model, FakeLoader({1, 8}, 8, 2)),
                    Catch::Equals("images of 1 x 8 pixels are too small for the network: layer "
                                  "conv: Conv2d(3, 4, 2x2, stride 2) gets 1x8 pixels and needs "
                                  "2x2; give the network larger images"));
}

TEST_CASE("images below the network's stride are warned of", "[image_fit]") {
  const Halving model;
  CHECK(image_size_warning(model, {2, 2}).empty());
  CHECK_THAT(
      image_size_warning(model, {8, 1}),
      Catch::StartsWith("images of 8 x 1 pixels are smaller than the network's stride of 2"));
  struct Unknown : Halving {
    int64_t stride() const override { return Model::stride(); }
  };
  CHECK(image_size_warning(Unknown(), {1, 1}).empty());
}

TEST_CASE("a batch of one sample is refused where batch norm would get one value", "[image_fit]") {
  Halving model;
  const auto check = [&](ImageSize size, int64_t samples, int64_t batches,
                         const TrainerOptions& options) {
    check_single_samples(model, FakeLoader(size, samples, batches), options);
  };
  CHECK_NOTHROW(check({2, 2}, 8, 2, options(4)));
  CHECK_NOTHROW(check({4, 2}, 9, 3, options(4)));
  CHECK_NOTHROW(check({2, 2}, 9, 3, options(4, "2ba")));  // which never come to the last one
  CHECK_NOTHROW(check({2, 2}, 8, 2, options(4, "2ep", 2)));
  CHECK_THROWS_WITH(check({2, 2}, 9, 3, options(4)),
                    Catch::StartsWith("the last batch of an epoch has one sample only: layer "
                                      "norm: BatchNorm2d(4) gets one value a channel"));
  CHECK_THROWS_WITH(check({3, 3}, 8, 8, options(1)),
                    Catch::StartsWith("a batch has one sample only"));
  CHECK_THROWS_WITH(check({2, 2}, 8, 2, options(4, "2ba", 4)),
                    Catch::StartsWith("a microbatch of a batch has one sample only"));
  CHECK_THROWS_WITH(check({2, 2}, 12, 2, options(6, "2ba", 4)),  // 2, 2, 1, 1
                    Catch::StartsWith("a microbatch of a batch has one sample only"));
  CHECK_THROWS_WITH(check({2, 2}, 13, 2, options(10, "3ep", 2)),
                    Catch::StartsWith("a microbatch of the last batch of an epoch"));
}

TEST_CASE("looking whether images fit changes nothing", "[image_fit]") {
  Halving model;
  model.eval();
  const auto& norm = dynamic_cast<BatchNorm2d&>(*model.slots()[1].layer());
  const auto mean = norm.running_mean.clone();
  at::manual_seed(3);
  const auto expected = at::rand({2});
  at::manual_seed(3);
  check_image_size(model, FakeLoader({3, 3}, 9, 3));
  CHECK_NOTHROW(check_single_samples(model, FakeLoader({4, 4}, 9, 3), options(4)));
  CHECK(at::equal(at::rand({2}), expected));
  CHECK(at::equal(norm.running_mean, mean));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 0);
  CHECK_FALSE(model.is_training());
  CHECK_FALSE(model.slots()[1].layer()->is_training());
}

}  // namespace
}  // namespace composer::image_fit_test
