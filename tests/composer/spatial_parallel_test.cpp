// Operations on images whose rows are divided among ranks compute what they do of whole images.
#include "nn/network/spatial_parallel.h"

#include <catch2/catch.hpp>
#include <functional>
#include <mutex>

#include "base/error.h"
#include "nn/network/layer.h"
#include "nn/network/layers.h"
#include "nn/network/row_operations.h"
#include "tests/ranks.h"

namespace composer::spatial_parallel_test {

using Catch::Matchers::Contains;
using test::in_ranks;
using Held = SpatialParallel::Held;

namespace {

std::mutex checking_rows;

constexpr int64_t channels = 6;

at::Tensor drawn(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

/// What is computed of images by some weights, which get gradients.
struct Computation {
  std::string name;
  std::vector<at::Tensor> weights;
  std::function<at::Tensor(const at::Tensor& images, const std::vector<at::Tensor>& weights)> of;
  std::vector<at::Tensor> statistics{};  ///< that it moves
};

Computation convolution(const std::string& name, Conv2dOptions options) {
  options.in_channels = channels, options.out_channels = 2 * channels;
  std::vector<at::Tensor> weights{
      drawn({2 * channels, channels / options.groups, options.kernel[0], options.kernel[1]})};
  if (options.bias) weights.push_back(drawn({2 * channels}));
  return {name, weights, [options](const at::Tensor& images, const auto& w) {
            return op::conv2d(images, w[0], options.bias ? w[1] : at::Tensor(), options);
          }};
}

Computation pooling(const std::string& name, const Pool2dOptions& options, bool largest) {
  return {name, {}, [=](const at::Tensor& images, const auto&) {
            return largest ? op::max_pool2d(images, options) : op::avg_pool2d(images, options);
          }};
}

Conv2dOptions kernel(int64_t size, int64_t stride, int64_t padding) {
  return {.in_channels = channels,
          .out_channels = channels,
          .kernel = {size, size},
          .stride = {stride, stride},
          .padding = {padding, padding},
          .bias = false};
}

std::vector<Computation> computations() {
  auto dilated = kernel(3, 1, 2), grouped = kernel(3, 2, 1), biased = kernel(3, 1, 1);
  dilated.dilation = {2, 2}, grouped.groups = 3, biased.bias = true;
  const auto mean = drawn({channels}), variance = drawn({channels}).square();
  const auto norm = [&](bool training) {
    return Computation{training ? "batch norm of a batch" : "batch norm of running statistics",
                       {drawn({channels}), drawn({channels})},
                       [=](const at::Tensor& images, const auto& w) {
                         return op::batch_norm(images, w[0], w[1], mean, variance,
                                               {.training = training});
                       },
                       training ? std::vector{mean, variance} : std::vector<at::Tensor>{}};
  };
  return {
      convolution("3x3", kernel(3, 1, 1)),
      convolution("3x3 with bias", biased),
      convolution("3x3, stride 2", kernel(3, 2, 1)),
      convolution("3x3, stride 2, groups", grouped),
      convolution("3x3, dilation 2", dilated),
      convolution("7x7, stride 2", kernel(7, 2, 3)),
      convolution("1x1", kernel(1, 1, 0)),
      convolution("1x1, stride 2", kernel(1, 2, 0)),
      convolution("2x2, stride 3, without padding", kernel(2, 3, 0)),
      pooling("max pooling 3x3, stride 2", {{3, 3}, {2, 2}, {1, 1}}, true),
      pooling("max pooling 2x2, stride 2", {{2, 2}, {2, 2}}, true),
      pooling("max pooling 3x3, ceil_mode", {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true},
              true),
      pooling("average pooling 2x2, stride 2", {{2, 2}, {2, 2}}, false),
      pooling("average pooling 3x3", {{3, 3}, {1, 1}, {1, 1}}, false),
      pooling("average pooling 2x2, ceil_mode",
              {.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true}, false),
      pooling("average pooling 3x3 of padding, ceil_mode",
              {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}, false),
      pooling("average pooling 3x3, ceil_mode",
              {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}, false),
      norm(true),
      norm(false),
      {"group norm",
       {drawn({channels}), drawn({channels})},
       [](const at::Tensor& images, const auto& w) {
         return op::group_norm(images, w[0], w[1], {.groups = 3});
       }},
      {"mean", {}, [](const at::Tensor& images, const auto&) { return op::mean(images); }},
      {"pooled to one pixel",
       {},
       [](const at::Tensor& images, const auto&) {
         return op::flatten(op::adaptive_avg_pool2d(images, {{1, 1}}));
       }},
      {"sum with a residual, ReLU",
       {drawn({channels, channels, 1, 1})},
       [](const at::Tensor& images, const auto& w) {
         const auto inner = op::conv2d(images, w[0], {}, kernel(1, 1, 0));
         return op::relu_(op::add_(inner, images));
       }},
      {"gates",
       {drawn({channels, channels})},
       [](const at::Tensor& images, const auto& w) {
         const auto gates = op::sigmoid_(op::linear(op::mean(images), w[0]));
         return op::multiply(op::gelu(images), op::unsqueeze(gates));
       }},
      {"standardised weights",
       {drawn({channels, channels, 3, 3})},
       [](const at::Tensor& images, const auto& w) {
         return op::conv2d(images, op::standardize_weight(w[0], {1e-10}), {}, kernel(3, 1, 1));
       }},
  };
}

/// What a computation leaves behind of one pass and back.
struct Passed {
  at::Tensor output, of_input;
  std::vector<at::Tensor> of_weights, statistics;
};

at::Tensor gradient_like(const at::Tensor& output) {
  return at::sin(at::arange(output.numel(), at::kDouble)).view_as(output);
}

Passed passed(const Computation& computation, const at::Tensor& images) {
  std::vector<at::Tensor> weights, moved;
  for (const auto& weight : computation.weights)
    weights.push_back(weight.detach().clone().requires_grad_());
  const auto before = computation.statistics;
  std::vector<at::Tensor> kept;
  for (const auto& statistic : before) kept.push_back(statistic.clone());
  const auto leaf = images.detach().clone().requires_grad_();
  const auto output = computation.of(leaf, weights);
  output.backward(gradient_like(output));
  Passed result{output.detach(), leaf.grad(), {}, {}};
  for (const auto& weight : weights) result.of_weights.push_back(weight.grad());
  for (size_t i = 0; i < before.size(); ++i) {
    result.statistics.push_back(before[i].clone());
    before[i].copy_(kept[i]);
  }
  return result;
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  if (!a.sizes().equals(b.sizes())) return 1e9;
  if (a.numel() == 0) return 0;
  return (a - b).abs().max().item<double>() / std::max(b.abs().max().item<double>(), 1e-3);
}

at::Tensor rows_of_rank(const at::Tensor& images, const Ranks& ranks) {
  if (images.dim() < 4) return images;
  const auto own = own_rows(images.size(2), ranks.rank(), ranks.size());
  return images.narrow(2, own.begin, own.size());
}

/// Largest difference of what a rank computes by rows to what `whole` has.
double difference_by_rows(const Computation& computation, const at::Tensor& images,
                          const Passed& whole, const Ranks& ranks) {
  std::vector<at::Tensor> weights;
  for (const auto& weight : computation.weights)
    weights.push_back(weight.detach().clone().requires_grad_());
  const auto format = images.suggest_memory_format();
  const auto leaf =
      rows_of_rank(images, ranks).clone().contiguous(format).detach().requires_grad_();
  at::Tensor output;
  {
    const SpatialParallel pass({ranks, {images.size(2), Held::rows}}, leaf);
    output = computation.of(leaf, weights);
  }
  // A whole output is on every rank: each gives its part of the gradient.
  const auto gradient = gradient_like(whole.output);
  output.backward(output.dim() < 4 ? gradient / static_cast<double>(ranks.size())
                                   : rows_of_rank(gradient, ranks));
  double most = std::max(apart(output.detach(), rows_of_rank(whole.output, ranks)),
                         apart(leaf.grad(), rows_of_rank(whole.of_input, ranks)));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].grad().defined()) return 1e9;
    const auto sum = weights[i].grad().clone();
    ranks.sum(sum);
    most = std::max(most, apart(sum, whole.of_weights[i]));
  }
  return most;
}

}  // namespace

TEST_CASE("a window's rows of the input are those that its output is made of", "[rows]") {
  const RowWindow stem{.kernel = 7, .stride = 2, .padding = 3};
  CHECK(stem.output_height(224) == 112);
  CHECK(stem.input_of({0, 56}, 224) == RowRange{-3, 114});
  CHECK(stem.input_of({56, 112}, 224) == RowRange{109, 226});
  const RowWindow dilated{.kernel = 3, .padding = 2, .dilation = 2};
  CHECK(dilated.output_height(7) == 7);
  CHECK(dilated.input_of({3, 7}, 9) == RowRange{1, 9});
  CHECK(dilated.input_of({3, 3}, 9) == RowRange{-5, 0});
  const RowWindow rounded{.kernel = 3, .stride = 2, .ceil_mode = true};
  CHECK(rounded.output_height(8) == 4);
  CHECK(RowWindow{.kernel = 2, .stride = 2, .padding = 1, .ceil_mode = true}.output_height(3) == 2);
  CHECK(RowWindow{.kernel = 5, .padding = 1}.output_height(3) == 1);
  CHECK_THROWS_WITH(
      (RowWindow{.kernel = 3, .stride = 2, .padding = 1, .dilation = 3}.output_height(4)),
      "images of 4 rows, with 1 of padding on either side, are too small for a window "
      "of 7");
}

TEST_CASE("shares of rows are in order and as even as can be", "[rows]") {
  CHECK(own_rows(7, 0, 2) == RowRange{0, 3});
  CHECK(own_rows(7, 1, 2) == RowRange{3, 7});
  CHECK(own_rows(1, 0, 4).empty());
  CHECK(own_rows(1, 3, 4) == RowRange{0, 1});
  CHECK(common({0, 3}, {2, 7}) == RowRange{2, 3});
  CHECK(common({0, 3}, {5, 7}).empty());
}

TEST_CASE("the most rows that a rank exchanges are those that its exchanges move",
          "[rows][ranks]") {
  const RowWindow three{.kernel = 3, .padding = 1}, one{.kernel = 1};
  CHECK(most_rows_exchanged(8, three, 2) == 1);
  CHECK(most_rows_exchanged(9, three, 3) == 2);  // of the one in the middle
  CHECK(most_rows_exchanged(8, one, 2) == 0);
  constexpr size_t size = 3;
  for (const auto& window : {three, RowWindow{.kernel = 7, .stride = 2, .padding = 3},
                             RowWindow{.kernel = 1, .stride = 2}})
    for (const int64_t height : {7, 12}) {
      CAPTURE(window.kernel, height);
      std::vector<std::vector<int64_t>> taken(size);
      in_ranks(size, [&](const Ranks& world) {
        const auto ranks = world.divided_by_rows(size).of_rows();
        const RowExchange exchange(ranks, height, window);
        auto& own = taken[static_cast<size_t>(ranks.rank())];
        for (const auto& rows : exchange.fetched(at::zeros({1, 1, exchange.own().size(), 1})))
          own.push_back(rows.size(2));
      });
      int64_t most = 0;
      for (size_t rank = 0; rank < size; ++rank) {
        int64_t gives = 0, takes = 0;
        for (size_t other = 0; other < size; ++other)
          gives += taken[other][rank], takes += taken[rank][other];
        most = std::max({most, gives, takes});
      }
      CHECK(most_rows_exchanged(height, window, size) == most);
    }
}

TEST_CASE("operations on divided images are those on whole ones, forward and back", "[rows]") {
  const int64_t size = GENERATE(2, 3, 4);
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  at::manual_seed(5);
  const auto all = computations();
  std::vector<at::Tensor> images;
  std::vector<std::vector<Passed>> whole;
  for (const int64_t height : {3, 7, 8, 13, 56}) {
    images.push_back(drawn({2, channels, height, 9}).contiguous(format));
    auto& passes = whole.emplace_back();
    for (const auto& computation : all) passes.push_back(passed(computation, images.back()));
  }
  // Threads of one process would share the statistics.
  std::vector<std::vector<Computation>> of_ranks;
  for (int64_t rank = 0; rank < size; ++rank) {
    at::manual_seed(5);
    of_ranks.push_back(computations());
  }
  in_ranks(size, [&](const Ranks& world) {
    const auto ranks = world.divided_by_rows(size).of_rows();
    const auto& own = of_ranks[static_cast<size_t>(ranks.rank())];
    for (size_t i = 0; i < images.size(); ++i)
      for (size_t c = 0; c < own.size(); ++c) {
        std::vector<at::Tensor> before;
        for (const auto& statistic : own[c].statistics) before.push_back(statistic.clone());
        double most = difference_by_rows(own[c], images[i], whole[i][c], ranks);
        for (size_t s = 0; s < before.size(); ++s) {
          most = std::max(most, apart(own[c].statistics[s], whole[i][c].statistics[s]));
          own[c].statistics[s].copy_(before[s]);
        }
        const std::lock_guard lock(checking_rows);
        CAPTURE(own[c].name, images[i].size(2), size, ranks.rank());
        CHECK(most < 1e-12);
      }
  });
}

TEST_CASE("ranks of rows and of samples divide all", "[rows][ranks]") {
  in_ranks(4, [](const Ranks& world) {
    const auto ranks = world.divided_by_rows(2);
    const auto rows = ranks.of_rows(), samples = ranks.of_samples();
    const auto in_rows = rows.gather(world.rank()), in_samples = samples.gather(world.rank());
    const int64_t first = world.rank() / 2 * 2, place = world.rank() % 2;
    const std::lock_guard lock(checking_rows);
    CHECK(in_rows == std::vector<int64_t>{first, first + 1});
    CHECK(in_samples == std::vector<int64_t>{place, place + 2});
    CHECK(world.of_rows().alone());
    CHECK(world.of_samples().size() == 4);
  });
  in_ranks(2, [](const Ranks& world) {
    const auto ranks = world.divided_by_rows(2);
    const std::lock_guard lock(checking_rows);
    CHECK(ranks.of_rows().size() == 2);
    CHECK(ranks.of_samples().alone());
  });
  CHECK_THROWS_WITH(Ranks().divided_by_rows(2),
                    "spatial_ranks: 2 ranks share an image, which does not divide the 1 rank that "
                    "there are; start a multiple of 2 (composer -n 2), or give 1");
}

TEST_CASE("what cannot be divided by rows is refused by name", "[rows]") {
  class Flattened : public Block {
   public:
    at::Tensor forward(const at::Tensor& input) override {
      return fc_(op::flatten(op::relu(conv_(input))));
    }
    bool by_rows() const override { return true; }
    std::string describe() const override { return "Flattened"; }

   private:
    Slot& conv_ = add<Conv2d>("conv", kernel(3, 1, 1));
    Slot& fc_ = add<Linear>("fc", 10, 10);
  };
  class Foreign : public Block {
   public:
    at::Tensor forward(const at::Tensor& input) override { return norm_(at::tanh(conv_(input))); }
    std::string describe() const override { return "Foreign"; }

   private:
    Slot& conv_ = add<Conv2d>("conv", kernel(3, 1, 1));
    Slot& norm_ = add<LayerNorm>("norm", 8);
  };
  Foreign foreign;
  CHECK_THROWS_WITH(check_by_rows(foreign),
                    Contains("not made for rows of images: the model, Foreign, layer norm, "
                             "LayerNorm(8); resnet, resnet_cifar and wide_resnet are"));
  in_ranks(2, [&](const Ranks& world) {
    const auto ranks = world.divided_by_rows(2).of_rows();
    const auto images = at::zeros({1, channels, 4, 4});
    Flattened flattened;
    Foreign own;
    const std::lock_guard lock(checking_rows);
    CHECK_THROWS_WITH(forward_by_rows(flattened, images, ranks),
                      Contains("flatten cannot be divided by rows: it takes whole images"));
    CHECK_THROWS_WITH(forward_by_rows(own, images, ranks),
                      Contains("layer norm: spatial_ranks: layer_norm cannot be divided") &&
                          Contains("not made by the functions of nn/network/operations.h"));
  });
}

}  // namespace composer::spatial_parallel_test
