// Ranks that have the rows of the same images compute, and train, what one rank does.
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "algorithms/activation_checkpointing.h"
#include "algorithms/blurpool.h"
#include "algorithms/channels_last.h"
#include "algorithms/cutmix.h"
#include "algorithms/dropout.h"
#include "algorithms/ema.h"
#include "algorithms/factorize.h"
#include "algorithms/ghost_batchnorm.h"
#include "algorithms/label_smoothing.h"
#include "algorithms/progressive_resizing.h"
#include "algorithms/sam.h"
#include "algorithms/squeeze_excite.h"
#include "algorithms/stochastic_depth.h"
#include "algorithms/sync_batchnorm.h"
#include "algorithms/weight_standardization.h"
#include "base/error.h"
#include "models/airbench.h"
#include "models/mnist_classifier.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "models/wide_resnet.h"
#include "nn/network/row_operations.h"
#include "nn/network/spatial_parallel.h"
#include "tests/ranks/double_run.h"
#include "tests/temporary_folder.h"

namespace composer::spatial_parallel_images_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::mutex checking_images;

/// By name; "resnet18d" is of variant d, "wide_16_2" has batch norms whatever is asked for.
std::shared_ptr<Model> residual_network(const std::string& name, const std::string& norm) {
  if (name == "wide_16_2") return std::make_shared<WideResNet>(WideResNet::Params{16, 2});
  if (name.find('_') == std::string::npos) {
    ResNet::Params params;
    const bool variant_d = name.ends_with('d');
    params.model_name = name.substr(0, name.size() - (variant_d ? 1 : 0));
    if (variant_d) params.variant = "d";
    params.norm = norm, params.num_classes = 10;
    return std::make_shared<ResNet>(params);
  }
  ResNetCifar::Params params;
  params.model_name = name, params.norm = norm;
  return std::make_shared<ResNetCifar>(params);
}

std::shared_ptr<Model> in_double(const std::string& name, const std::string& norm) {
  at::manual_seed(3);
  auto model = residual_network(name, norm);
  model->to(at::kDouble);
  return model;
}

/// What a pass and the way back leave behind.
struct NetworkPass {
  at::Tensor logits, of_images;
  std::map<std::string, at::Tensor> gradients, buffers;
};

/// ranks: of the images; each gives its part of the loss.
NetworkPass network_pass(Model& model, const at::Tensor& images, const Ranks& ranks) {
  const auto leaf = images.clone().requires_grad_();
  const auto logits = Network(model, Precision::fp32, at::kCPU, nullptr, ranks).forward(leaf);
  const auto weights = at::sin(at::arange(logits.numel(), at::kDouble)).view_as(logits);
  ((logits.sin() * weights).sum() / static_cast<double>(ranks.size())).backward();
  NetworkPass result{logits.detach(), leaf.grad(), {}, {}};
  ranks.sum(result.of_images);
  for (const auto& item : model.named_parameters()) {
    if (!item.value().grad().defined()) continue;  // of a branch that was dropped
    result.gradients[item.key()] = item.value().grad();
    ranks.sum(item.value().grad());
  }
  for (const auto& item : model.named_buffers()) result.buffers[item.key()] = item.value();
  return result;
}

/// Largest difference, as a share of the largest number of a tensor or of all of its kind.
double difference(const NetworkPass& a, const NetworkPass& b) {
  double gradients = 0;
  for (const auto& [name, gradient] : b.gradients)
    gradients = std::max(gradients, gradient.abs().max().item<double>());
  double most =
      std::max(test::difference(a.logits, b.logits), test::difference(a.of_images, b.of_images));
  for (const auto& [name, gradient] : b.gradients)
    most = std::max(most, (a.gradients.at(name) - gradient).abs().max().item<double>() / gradients);
  for (const auto& [name, buffer] : b.buffers)
    most = std::max(most,
                    test::difference(a.buffers.at(name).to(at::kDouble), buffer.to(at::kDouble)));
  return most;
}

/// On so many ranks, by the same weights.
double difference_on(
    int64_t size, const std::string& name, const std::string& norm, const at::Tensor& images,
    const std::function<void(Model&)>& change = [](Model&) {}) {
  at::set_num_threads(1);
  const auto whole = in_double(name, norm);
  change(*whole);
  const auto expected = network_pass(*whole, images, {});
  std::vector<std::shared_ptr<Model>> models;
  for (int64_t rank = 0; rank < size; ++rank) {
    models.push_back(in_double(name, norm));
    change(*models.back());
  }
  double most = 0;
  in_ranks(size, [&](const Ranks& all) {
    at::set_num_threads(1);
    const auto rank = all.rank();
    const auto ranks = all.divided_by_rows(size).of_rows();
    const auto got = network_pass(*models[static_cast<size_t>(rank)], images, ranks);
    const std::lock_guard lock(checking_images);
    most = std::max(most, difference(got, expected));
  });
  return most;
}

/// Largest of the losses' and the weights' differences.
void check_trains_as_one(Setup setup, int64_t size, int64_t spatial_ranks, double most) {
  setup.spatial_ranks = 1;
  const auto one = train_on(1, setup);
  setup.spatial_ranks = spatial_ranks;
  const auto several = train_on(size, setup);
  CAPTURE(size, spatial_ranks);
  CHECK(test::difference(several, one) < most);
  REQUIRE(several.losses.size() == one.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i)
    CHECK(several.losses[i] == Approx(one.losses[i]).epsilon(most));
  for (const std::string metric : {"metrics/train/Accuracy", "metrics/eval/Accuracy",
                                   "metrics/eval/Top5Accuracy", "metrics/eval/CrossEntropy"}) {
    CAPTURE(metric);
    CHECK(several.metrics.at(metric) == Approx(one.metrics.at(metric)).epsilon(most));
  }
  CHECK(several.time.sample == one.time.sample);
  CHECK(several.summary.world_size == size);
}

template <class Method, class... Args>
void add_in_double(Setup& setup, const std::string& name, Args... args) {
  setup.add = [=](Trainer& trainer) {
    if constexpr (!std::is_void_v<Method>) trainer.add<Method>(name, args...);
    trainer.add<InDouble>("in_double");
  };
}

}  // namespace

TEST_CASE("residual networks on divided images are those on whole ones", "[rows]") {
  const int64_t size = GENERATE(2, 4);
  at::manual_seed(7);
  const auto images = at::randn({3, 3, 40, 33}, at::kDouble);
  for (const std::string norm : {"batch_norm", "group_norm"}) {
    CAPTURE(size, norm);
    CHECK(difference_on(size, "resnet_20", norm, images) < 1e-12);
  }
}

TEST_CASE("all residual networks on divided images are those on whole ones", "[rows][long]") {
  const std::string name = GENERATE(as<std::string>(), "resnet18", "resnet50", "resnet_9");
  const std::string norm = GENERATE(as<std::string>(), "batch_norm", "group_norm");
  const int64_t size = GENERATE(2, 3, 4);
  at::manual_seed(7);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    // Each norm in each format with three ranks, in one of them with others.
    if (size != 3 && (format == at::MemoryFormat::Contiguous) != (norm == "batch_norm")) continue;
    const auto images = at::randn({2, 3, 104, 36}, at::kDouble).contiguous(format);
    CAPTURE(name, norm, size, format);
    CHECK(difference_on(size, name, norm, images) < 1e-11);
  }
}

TEST_CASE("networks of averaging pools and of norms before convolutions are divided too",
          "[rows]") {
  at::manual_seed(7);
  for (const std::string name : {"resnet18d", "wide_16_2"}) {
    CAPTURE(name);
    CHECK(difference_on(3, name, "batch_norm", at::randn({2, 3, 72, 40}, at::kDouble)) < 1e-11);
  }
}

TEST_CASE("methods' layers are divided as the network's own", "[rows]") {
  at::manual_seed(7);
  const auto images = at::randn({3, 3, 40, 33}, at::kDouble);
  const auto check = [&](const std::function<void(Model&)>& change) {
    CHECK(difference_on(3, "resnet_20", "batch_norm", images, change) < 1e-11);
  };
  check([](Model& model) {
    apply_blurpool(model, BlurPool::Params{.min_channels = 1});
    model.to(at::kDouble);
  });
  check([](Model& model) {
    apply_squeeze_excite(model, SqueezeExcite::Params{.min_channels = 16}, 5);
    model.to(at::kDouble);
  });
  check([](Model& model) { apply_weight_standardization(model, 0); });
  check([](Model& model) { apply_activation_checkpointing(model, {}); });
}

TEST_CASE("what is dropped on divided images is what is dropped on whole ones", "[rows]") {
  const bool recomputed = GENERATE(false, true);
  const auto [method, rate] = GENERATE(table<std::string, double>(
      {{"block", 1.0}, {"block", 0.5}, {"sample", 0.5}, {"dropout", 0.5}}));
  CAPTURE(method, rate, recomputed);
  at::manual_seed(7);
  const auto images = at::randn({3, 3, 24, 17}, at::kDouble);
  const auto state = std::make_shared<State>();
  const auto draws = std::make_shared<DepthDraws>(DepthDraws{.state = state.get()});
  const auto change = [&](Model& model) {
    if (method == "dropout") {
      apply_dropout(model, {.drop_rate = rate}, state);
    } else {
      StochasticDepth::Params params;
      params.stochastic_method = method, params.drop_rate = rate;
      params.drop_distribution = "uniform";
      apply_stochastic_depth(model, params, draws);
    }
    if (recomputed) apply_activation_checkpointing(model, {});
  };
  CHECK(difference_on(3, "resnet_20", "batch_norm", images, change) < 1e-11);
}

TEST_CASE("a batch that is blurred part by part is divided as any other", "[rows]") {
  at::manual_seed(7);
  const auto images = at::randn({5, 4, 2, 9}, at::kDouble);
  const auto filter = blur_filter(images);
  const auto whole = blur(images, {2, 2}, filter);
  in_ranks(3, [&](const Ranks& world) {
    const auto ranks = world.divided_by_rows(3).of_rows();
    const auto rows_of = [&](const at::Tensor& tensor) {
      const auto own = own_rows(tensor.size(2), ranks.rank(), ranks.size());
      return tensor.narrow(2, own.begin, own.size());
    };
    const auto rows = rows_of(images).clone();
    const SpatialParallel pass({ranks, {2, SpatialParallel::Held::rows}}, rows);
    const auto blurred = blur(rows, {2, 2}, filter, /*most_elements=*/2 * images[0].numel());
    const auto known = pass.find(blurred);
    const std::lock_guard lock(checking_images);
    CHECK(at::allclose(blurred, rows_of(whole), 0, 1e-12));
    REQUIRE(known.has_value());
    CHECK(known->height == 1);
    CHECK(known->held == SpatialParallel::Held::rows);
  });
}

TEST_CASE("sync_batchnorm counts values that several ranks have once", "[rows]") {
  at::manual_seed(7);
  const auto all = at::randn({4, 6, 1, 1}, at::kDouble);
  const auto norm_in_double = [] {
    auto norm = std::make_shared<BatchNorm2d>(6);
    norm->to(at::kCPU, at::kDouble);
    return norm;
  };
  const auto whole = norm_in_double();
  const auto expected = whole->forward(all, {}, Activation::none);
  std::vector<std::shared_ptr<BatchNorm2d>> norms;
  for (int64_t rank = 0; rank < 4; ++rank) norms.push_back(norm_in_double());
  in_ranks(4, [&](const Ranks& world) {
    const auto ranks = world.divided_by_rows(2);
    SyncBatchNorm2d norm(*norms[static_cast<size_t>(world.rank())], ranks);
    const int64_t first = world.rank() / 2 * 2;
    const auto own = all.narrow(0, first, 2).clone();
    const SpatialParallel pass({ranks.of_rows(), {1, SpatialParallel::Held::whole}}, own);
    const auto output = norm.forward(own, {}, Activation::none);
    const std::lock_guard lock(checking_images);
    CHECK(at::allclose(output, expected.narrow(0, first, 2), 0, 1e-12));
    CHECK(at::allclose(norm.running_var, whole->running_var, 0, 1e-12));
  });
}

TEST_CASE("in bf16 divided images come near to whole ones", "[rows]") {
  at::manual_seed(7);
  const auto images = at::randn({3, 3, 40, 33});
  const auto pass = [&](Model& model, Precision precision, const Ranks& ranks) {
    const auto logits = Network(model, precision, at::kCPU, nullptr, ranks).forward(images);
    (logits.to(at::kFloat).square().sum() / static_cast<double>(ranks.size())).backward();
    for (const auto& parameter : model.parameters()) ranks.sum(parameter.grad());
    return std::pair(logits.detach().to(at::kFloat), model.parameters().front().grad());
  };
  const auto made = [] {
    at::manual_seed(3);
    return residual_network("resnet_20", "batch_norm");
  };
  const auto exact = made();
  const auto [logits, gradient] = pass(*exact, Precision::fp32, {});
  const auto whole = pass(*made(), Precision::amp_bf16, {});
  std::vector<std::shared_ptr<Model>> models{made(), made(), made()};
  in_ranks(3, [&](const Ranks& world) {
    const auto ranks = world.divided_by_rows(3).of_rows();
    auto& model = *models[static_cast<size_t>(world.rank())];
    const auto got = pass(model, Precision::amp_bf16, ranks);
    const std::lock_guard lock(checking_images);
    CHECK(test::difference(got.first, logits) < 0.05);
    CHECK(test::difference(got.second, gradient) < 2 * test::difference(whole.second, gradient));
  });
}

TEST_CASE("ranks that divide images train as one in float64", "[rows]") {
  Setup setup;
  setup.batches = 12;
  add_in_double<void>(setup, "");
  check_trains_as_one(setup, 2, 2, 1e-9);
  check_trains_as_one(setup, 4, 2, 1e-9);
}

TEST_CASE("a run goes on with other spatial_ranks than before", "[rows]") {
  const TemporaryFolder folder;
  Setup setup;
  setup.batches = 12;
  add_in_double<void>(setup, "");
  const auto whole = train_on(1, setup);
  setup.change = [&](TrainerParts& parts) {
    parts.options.run_dir = folder.path().string(), parts.options.run_name = "run";
    parts.options.autoresume = true;
  };
  const auto go_on = [&](int64_t size, int64_t spatial_ranks, int64_t batches) {
    setup.spatial_ranks = spatial_ranks, setup.batches = batches;
    return train_on(size, setup);
  };
  go_on(2, 2, 3);
  go_on(2, 1, 6);
  go_on(1, 1, 8);
  const auto last = go_on(4, 2, 12);
  CHECK(last.losses.size() == 4);
  CHECK(last.time.sample == whole.time.sample);
  CHECK(test::difference(last, whole) < 1e-9);
}

TEST_CASE("ranks that divide images count each sample of an evaluation once", "[rows]") {
  const auto evaluation_on = [](int64_t size, int64_t spatial_ranks) {
    const TemporaryFolder folder;
    Setup setup;
    setup.batches = 3, setup.spatial_ranks = spatial_ranks;
    add_in_double<void>(setup, "");
    setup.change = [&](TrainerParts& parts) {
      parts.options.run_dir = folder.path().string(), parts.options.run_name = "run";
    };
    train_on(size, setup);
    std::ifstream file(folder / "run/evaluation.json");
    return nlohmann::json::parse(file);
  };
  const auto whole = evaluation_on(1, 1), in_rows = evaluation_on(2, 2),
             in_shares = evaluation_on(4, 2);
  CHECK(whole.at("samples") == 37);
  for (const auto& divided : {in_rows, in_shares})
    for (const char* key : {"samples", "confusion", "per_class"}) {
      CAPTURE(key);
      CHECK(divided.at(key) == whole.at(key));
    }
  CHECK(in_rows.at("all_ranks") == true);
  CHECK(in_shares.at("all_ranks") == false);
}

void check_trains_as_one_with(const std::string& name) {
  CAPTURE(name);
  Setup setup;
  setup.batches = 20;
  add_in_double<void>(setup, "");
  if (name == "grad_accum")
    setup.change = [](TrainerParts& parts) { parts.options.grad_accum = 3; };
  if (name == "grad_clip_norm")
    setup.change = [](TrainerParts& parts) { parts.options.grad_clip_norm = 0.05; };
  if (name == "zero1")
    setup.change = [](TrainerParts& parts) { parts.options.parallelism = "zero1"; };
  if (name == "ema")
    add_in_double<Ema>(setup, name, Ema::Params{.half_life = {5, TimeUnit::batch}});
  if (name == "sam") add_in_double<Sam>(setup, name, Sam::Params{.rho = 0.1});
  if (name == "cutmix") add_in_double<CutMix>(setup, name, CutMix::Params{});
  if (name == "progressive_resizing")
    add_in_double<ProgressiveResizing>(setup, name, ProgressiveResizing::Params{});
  if (name == "channels_last") add_in_double<ChannelsLast>(setup, name);
  if (name == "dropout") add_in_double<Dropout>(setup, name, Dropout::Params{});
  if (name == "stochastic_depth") {
    setup.batches = 12;
    setup.model = [] { return residual_network("resnet_20", "group_norm"); };
    add_in_double<StochasticDepth>(setup, name, StochasticDepth::Params{.drop_rate = 0.5});
  }
  if (name == "uneven shares") setup.batch_size = 13;
  // It mixes the images of a share.
  if (name != "cutmix") check_trains_as_one(setup, 4, 2, 1e-9);
  check_trains_as_one(setup, 3, 3, 1e-9);
}

TEST_CASE("with other methods ranks that divide images train as one", "[rows][slow]") {
  for (const char* name : {"grad_accum", "sam", "uneven shares"}) check_trains_as_one_with(name);
}

TEST_CASE("with more methods ranks that divide images train as one", "[rows][long]") {
  for (const char* name : {"stochastic_depth", "grad_clip_norm", "zero1", "ema", "cutmix",
                           "progressive_resizing", "channels_last", "dropout"})
    check_trains_as_one_with(name);
}

TEST_CASE("batch norm of all rows trains as that of whole images", "[rows][slow]") {
  Setup setup;
  setup.batches = 12;
  setup.model = [] { return residual_network("resnet_20", "batch_norm"); };
  add_in_double<void>(setup, "");
  check_trains_as_one(setup, 2, 2, 1e-8);
  check_trains_as_one(setup, 4, 4, 1e-8);
  add_in_double<SyncBatchNorm>(setup, "sync_batchnorm");
  check_trains_as_one(setup, 4, 2, 1e-8);
}

TEST_CASE("networks and layers that are not made for rows are refused by name", "[rows]") {
  Airbench airbench(Airbench::Params{});
  CHECK_THROWS_WITH(check_by_rows(airbench),
                    Contains("the model, " + airbench.describe()) && Contains("GlobalMaxPool2d"));
  MnistClassifier mnist(MnistClassifier::Params{});
  CHECK_THROWS_WITH(check_by_rows(mnist), Contains("the model, " + mnist.describe()));
  const auto ghost = residual_network("resnet_20", "batch_norm");
  apply_ghost_batchnorm(*ghost, 2);
  CHECK_THROWS_WITH(check_by_rows(*ghost), Contains("layer bn1, GhostBatchNorm2d(16, 2 samples)"));
  for (const std::string name :
       {"resnet18", "resnet50", "resnet18d", "resnet_9", "resnet_20", "resnet_56", "wide_16_2"})
    CHECK_NOTHROW(check_by_rows(*residual_network(name, "group_norm")));
}

TEST_CASE("a run whose ranks do not divide images as it says is refused", "[rows]") {
  auto parts = small_parts(std::make_shared<GroupNormModel>(), 3, 12);
  parts.train_loader = noise_loader(100, 12, true, {});
  parts.options.spatial_ranks = 2;
  Trainer trainer(std::move(parts));
  CHECK_THROWS_WITH(trainer.fit(), Contains("does not divide the 1 rank that there are"));
}

}  // namespace composer::spatial_parallel_images_test
