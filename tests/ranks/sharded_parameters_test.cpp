// Weights divided among ranks: what they train, what they keep, what is refused.
#include "nn/network/sharded_parameters.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>

#include "algorithms/activation_checkpointing.h"
#include "algorithms/all.h"
#include "algorithms/channels_last.h"
#include "algorithms/ema.h"
#include "algorithms/gradual_unfreezing.h"
#include "algorithms/layer_freezing.h"
#include "algorithms/sam.h"
#include "algorithms/stochastic_depth.h"
#include "algorithms/swa.h"
#include "algorithms/sync_batchnorm.h"
#include "base/error.h"
#include "composer/callbacks/monitors.h"
#include "models/resnet_cifar.h"
#include "nn/optimization/muon.h"
#include "nn/optimization/optimizers.h"
#include "tests/ranks/double_run.h"

namespace composer::sharded_parameters_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::shared_ptr<Model> resnet20() {
  ResNetCifar::Params params;
  params.model_name = "resnet_20";
  return std::make_shared<ResNetCifar>(params);
}

Setup divided(Setup setup, const std::string& weight_comm = "fp32") {
  const auto change = setup.change;
  setup.change = [change, weight_comm](TrainerParts& parts) {
    change(parts);
    parts.options.parallelism = "fsdp";
    parts.options.weight_comm = weight_comm;
  };
  return setup;
}

/// Makes State known to a layer.
struct Eyes {
  std::function<void()> look = [] {};
};

/// Runs something in the middle of a forward pass.
class Probe : public Layer {
 public:
  explicit Probe(std::shared_ptr<Eyes> eyes) : eyes_(std::move(eyes)) {}
  at::Tensor forward(const at::Tensor& input) override {
    eyes_->look();
    return input;
  }
  std::string describe() const override { return "Probe"; }

 private:
  std::shared_ptr<Eyes> eyes_;
};

/// Destroys another trainer after the first batch.
class Undertaker : public Algorithm {
 public:
  explicit Undertaker(std::unique_ptr<Trainer>& other) : other_(other) {}
  std::string prevents_sharding() const override { return {}; }
  void batch_end(State&) override { other_.reset(); }

 private:
  std::unique_ptr<Trainer>& other_;
};

constexpr int64_t width = 256;
constexpr int64_t wide_layers = 12;

class WideLayer : public Block {
 public:
  explicit WideLayer(std::shared_ptr<Eyes> eyes) {
    add<Linear>("fc", width, width);
    add<Probe>("probe", std::move(eyes));
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
};

/// Layers of `width` x `width` numbers after a small beginning, with a probe in each.
class WideModel : public Model {
 public:
  explicit WideModel(const std::shared_ptr<Eyes>& eyes) {
    add<AdaptiveAvgPool2d>("pool");
    add<Linear>("first", 3, width);
    for (int64_t i = 0; i < wide_layers; ++i) add<WideLayer>("layer" + std::to_string(i), eyes);
    add<Linear>("last", width, 10);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 10; }
};

/// Has a parameter in no layer.
class ScaledModel : public Model {
 public:
  ScaledModel() {
    add<AdaptiveAvgPool2d>("pool");
    add<Linear>("fc", 3, 10);
    scale_ = register_parameter("scale", at::ones({10}));
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input) * scale_; }
  int64_t num_classes() const override { return 10; }

 private:
  at::Tensor scale_;
};

/// Of all storages under these tensors, each counted once.
double bytes_of(const std::vector<at::Tensor>& tensors) {
  std::set<const c10::StorageImpl*> seen;
  size_t bytes = 0;
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.has_storage() && !tensor.is_meta() &&
        seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += tensor.storage().nbytes();
  return static_cast<double>(bytes);
}

/// What a rank keeps of weights, gradients and optimizer between steps.
double state_bytes(const State& state) {
  auto tensors = state.model->parameters();
  for (const auto& parameter : state.model->parameters()) tensors.push_back(parameter.grad());
  for (const auto& [name, tensor] : state.optimizer->state_dict().tensors)
    tensors.push_back(tensor);
  return bytes_of(tensors);
}

struct Unwilling : Algorithm {};

/// Looks at all weights in mid-training.
struct Reader : Algorithm {
  std::string prevents_sharding() const override { return {}; }
  void batch_end(State& state) override {
    for (const auto& parameter : state.model->parameters()) parameter.sum().item<double>();
  }
};

/// Counts batches of all ranks after which parameters belong to single ranks.
struct OwnersSeen : Algorithm {
  explicit OwnersSeen(std::atomic<int64_t>& count) : count(count) {}
  std::string prevents_sharding() const override { return {}; }
  void batch_end(State& state) override {
    if (!state.optimizer->owners().empty()) ++count;
  }
  std::atomic<int64_t>& count;
};

struct Measured {
  double between = 0;  ///< bytes between steps
  double within = 0;   ///< most bytes of weights in a forward pass
};

struct Meter : Callback {
  Meter(std::shared_ptr<Eyes> eyes, Measured& measured)
      : eyes(std::move(eyes)), measured(measured) {}
  void batch_start(const State& state, Logger&, RunControl&) override {
    eyes->look = [this, &state] {
      measured.within = std::max(measured.within, bytes_of(state.model->parameters()));
    };
  }
  void batch_end(const State& state, Logger&, RunControl&) override {
    measured.between = std::max(measured.between, state_bytes(state));
  }
  std::shared_ptr<Eyes> eyes;
  Measured& measured;
};

/// A wide network on each of `size` ranks.
std::vector<Measured> measure(int64_t size, const std::string& parallelism) {
  std::vector<Measured> all(static_cast<size_t>(size));
  std::vector<std::shared_ptr<Eyes>> eyes;
  std::vector<std::shared_ptr<Model>> models;
  for (int64_t rank = 0; rank < size; ++rank) {
    at::manual_seed(3);
    eyes.push_back(std::make_shared<Eyes>());
    models.push_back(std::make_shared<WideModel>(eyes.back()));
  }
  in_ranks(size, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    auto parts = small_parts(models[rank], 4, 12);
    parts.options.parallelism = parallelism;
    parts.train_loader = noise_loader(100, 12, true, ranks);
    AdamParams adam;
    adam.lr = 0.001;
    parts.optimizer = std::make_shared<AdamW>(adam);
    parts.ranks = ranks;
    Trainer trainer(std::move(parts));
    trainer.add<Meter>("meter", eyes[rank], all[rank]);
    trainer.fit();
  });
  return all;
}

/// Other names add nothing.
void add_named(Trainer& trainer, const std::string& name) {
  if (name == "ema") {
    Ema::Params params;
    params.half_life = {5, TimeUnit::batch};
    trainer.add<Ema>("ema", params);
  }
  if (name == "swa") {
    Swa::Params params;
    params.swa_start = {0.2, TimeUnit::duration}, params.swa_end = {0.8, TimeUnit::duration};
    params.update_interval = {1, TimeUnit::batch};
    trainer.add<Swa>("swa", params);
  }
  if (name == "sam") trainer.add<Sam>("sam", Sam::Params{.rho = 0.1});
}

/// Whose step of a weight depends on all of it.
std::shared_ptr<Optimizer> optimizer_of_whole_weights(const std::string& name) {
  if (name == "lars") {
    LarsParams params;
    params.lr = 0.1, params.trust_coeff = 0.02, params.weight_decay = 0.001;
    return std::make_shared<Lars>(params);
  }
  if (name == "lamb") {
    LambParams params;
    params.lr = 0.005, params.eps = 1e-3;  // so that last bits of small gradients do not count
    return std::make_shared<Lamb>(params);
  }
  MuonParams params;
  params.lr = params.sgd_lr = 0.05;
  return std::make_shared<Muon>(params);
}

}  // namespace

void check_divided_weights_with(const std::string& name) {
  CAPTURE(name);
  Setup setup;
  setup.batches = 9, setup.model = resnet20;
  if (name == "grad_accum")
    setup.change = [](TrainerParts& parts) { parts.options.grad_accum = 2; };
  if (name == "grad_clip_norm")
    setup.change = [](TrainerParts& parts) { parts.options.grad_clip_norm = 0.05; };
  if (name == "lookahead")
    setup.change = [](TrainerParts& parts) {
      Registry registry;
      add_builtin_algorithms(registry);
      const auto lookahead = registry.algorithms.make("lookahead");
      parts.algorithms.push_back({"lookahead", lookahead->build(), lookahead->subscriptions()});
    };
  setup.add = [name](Trainer& trainer) {
    add_named(trainer, name);
    if (name == "layer_freezing")
      trainer.add<LayerFreezing>("layer_freezing", LayerFreezing::Params{.freeze_start = 0.1});
    if (name == "gradual_unfreezing")
      trainer.add<GradualUnfreezing>("gradual_unfreezing", GradualUnfreezing::Params{});
    if (name == "activation_checkpointing")
      trainer.add<ActivationCheckpointing>("activation_checkpointing",
                                           ActivationCheckpointing::Params{});
    if (name == "checkpointed stages") {
      ActivationCheckpointing::Params params;
      params.layers = {"layer1", "layer3"};
      trainer.add<ActivationCheckpointing>("activation_checkpointing", params);
    }
    if (name == "stochastic_depth") {
      StochasticDepth::Params params;
      params.drop_rate = 0.5;
      trainer.add<StochasticDepth>("stochastic_depth", params);
    }
    if (name == "sync_batchnorm") trainer.add<SyncBatchNorm>("sync_batchnorm");
    if (name == "gradient_monitor")
      trainer.add<GradientMonitor>("gradient_monitor",
                                   GradientMonitor::Params{.interval = {1, TimeUnit::batch}});
    trainer.add<InDouble>("in_double");
  };
  for (const int64_t size : {2, 4}) {
    // Two ranks with each algorithm: algorithm_ranks_test.cpp.
    if (size == 2 && name != "plain" && name != "grad_accum") continue;
    CAPTURE(size);
    const auto together = train_on(size, setup), apart = train_on(size, divided(setup));
    CHECK(difference(apart, together) < 1e-9);
    REQUIRE(apart.losses.size() == together.losses.size());
    for (size_t i = 0; i < together.losses.size(); ++i)
      CHECK(apart.losses[i] == Approx(together.losses[i]).epsilon(1e-9));
    for (const auto& [metric, value] : together.metrics)
      if (metric.starts_with("metrics/") || metric.find("grad_l2") != std::string::npos) {
        CAPTURE(metric);
        CHECK(apart.metrics.at(metric) == Approx(value).epsilon(1e-9));
      }
  }
}

TEST_CASE("ranks that divide weights train as ranks that do not", "[ranks][slow]") {
  for (const char* name : {"plain", "ema", "sam", "checkpointed stages", "grad_accum"})
    check_divided_weights_with(name);
}

TEST_CASE("with more methods ranks that divide weights train as ranks that do not",
          "[ranks][long]") {
  for (const char* name :
       {"lookahead", "swa", "layer_freezing", "gradual_unfreezing", "activation_checkpointing",
        "stochastic_depth", "sync_batchnorm", "grad_clip_norm", "gradient_monitor"})
    check_divided_weights_with(name);
}

void check_optimizer_of_whole_weights(const std::string& name, const std::string& parallelism) {
  CAPTURE(name, parallelism);
  Setup setup;
  setup.batches = 9, setup.model = resnet20;
  setup.change = [name](TrainerParts& parts) {
    parts.optimizer = optimizer_of_whole_weights(name);
  };
  setup.add = [](Trainer& trainer) { trainer.add<InDouble>("in_double"); };
  auto dividing = setup;
  dividing.change = [setup, parallelism](TrainerParts& parts) {
    setup.change(parts);
    parts.options.parallelism = parallelism;
  };
  std::atomic<int64_t> divided_batches = 0;
  dividing.add = [&setup, &divided_batches](Trainer& trainer) {
    setup.add(trainer);
    trainer.add<OwnersSeen>("owners_seen", divided_batches);
  };
  // Muon iterates in float32, the matrices of one rank together.
  const double bound = name == "muon" ? 1e-4 : 1e-9;
  for (const int64_t size : {2, 4}) {
    CAPTURE(size);
    CHECK(difference(train_on(size, dividing), train_on(size, setup)) < bound);
    CHECK(divided_batches.exchange(0) == size * setup.batches);
  }
}

TEST_CASE("optimizers that look at a whole weight have it where ranks divide what they keep",
          "[ranks][slow]") {
  check_optimizer_of_whole_weights("muon", "fsdp");
  check_optimizer_of_whole_weights("lamb", "zero1");
}

TEST_CASE("so have more of these optimizers", "[ranks][long]") {
  check_optimizer_of_whole_weights("muon", "zero1");
  check_optimizer_of_whole_weights("lamb", "fsdp");
  for (const char* parallelism : {"zero1", "fsdp"})
    check_optimizer_of_whole_weights("lars", parallelism);
}

TEST_CASE("ranks that divide weights keep a share of them", "[ranks]") {
  const int64_t ranks = 4;
  const auto whole = measure(ranks, "ddp"), shares = measure(ranks, "fsdp");
  const double weights = whole[0].within;
  const double largest = width * (width + 1) * sizeof(float);
  for (const auto& share : shares) {
    CHECK(share.between == Approx(whole[0].between / ranks).epsilon(0.1));
    CHECK(share.within < weights / ranks * 1.1 + 2 * largest);
    CHECK(share.within > weights / ranks);
  }
}

TEST_CASE("weights that are gathered in bfloat16 are the same on all ranks, and rounded",
          "[ranks]") {
  Setup setup;
  setup.batches = 6, setup.model = resnet20;
  const auto whole = train_on(2, setup), exact = train_on(2, divided(setup)),
             rounded = train_on(2, divided(setup, "bf16"));
  CHECK(difference(exact, whole) == 0);
  CHECK(rounded.losses[0] != whole.losses[0]);
  CHECK(rounded.losses[0] == Approx(whole.losses[0]).epsilon(0.02));
  for (const auto& [name, weight] : rounded.weights)
    if (weight.dim() == 4) CHECK_FALSE(at::equal(weight, weight.to(at::kBFloat16).to(at::kFloat)));
}

TEST_CASE("in bfloat16 arithmetic divided weights train to the same bits", "[ranks]") {
  const bool channels_last = GENERATE(false, true);
  CAPTURE(channels_last);
  Setup setup;
  setup.batches = 6, setup.model = resnet20;
  setup.change = [](TrainerParts& parts) { parts.options.precision = "amp_bf16"; };
  if (channels_last)
    setup.add = [](Trainer& trainer) { trainer.add<ChannelsLast>("channels_last"); };
  CHECK(difference(train_on(2, divided(setup)), train_on(2, setup)) == 0);
}

TEST_CASE("ranks may have no weights of their own", "[ranks]") {
  const std::string name =
      GENERATE(as<std::string>(), "ema", "swa", "sam", "grad_clip_norm", "gradient_monitor");
  CAPTURE(name);
  Setup setup;
  setup.batches = 6, setup.model = [] { return std::make_shared<ScaledModel>(); };
  if (name == "grad_clip_norm")
    setup.change = [](TrainerParts& parts) { parts.options.grad_clip_norm = 0.01; };
  setup.add = [name](Trainer& trainer) {
    add_named(trainer, name);
    if (name == "gradient_monitor")
      trainer.add<GradientMonitor>("gradient_monitor",
                                   GradientMonitor::Params{.interval = {1, TimeUnit::batch}});
    trainer.add<InDouble>("in_double");
  };
  CHECK(difference(train_on(4, divided(setup)), train_on(4, setup)) < 1e-9);
}

TEST_CASE("layers that are computed again as a whole send their gradients once", "[ranks]") {
  Setup setup;
  setup.batches = 3, setup.model = resnet20;
  const auto plain = train_on(2, divided(setup));
  setup.add = [](Trainer& trainer) {
    ActivationCheckpointing::Params params;
    params.layers = {"layer1", "layer2", "layer3"};
    trainer.add<ActivationCheckpointing>("activation_checkpointing", params);
  };
  const auto again = train_on(2, divided(setup));
  CHECK(difference(again, plain) < 1e-4);
  CHECK(again.metrics.at("comm/bytes") == plain.metrics.at("comm/bytes"));
}

TEST_CASE("after training each rank predicts by itself", "[ranks]") {
  std::vector<at::Tensor> logits(2);
  std::vector<std::shared_ptr<Model>> models;
  for (size_t rank = 0; rank < logits.size(); ++rank) {
    at::manual_seed(3);
    models.push_back(std::make_shared<ScaledModel>());
  }
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    auto parts = small_parts(models[rank], 4, 12);
    parts.options.parallelism = "fsdp";
    parts.train_loader = noise_loader(100, 12, true, ranks);
    parts.ranks = ranks;
    Trainer trainer(std::move(parts));
    trainer.fit();
    trainer.fit();  // nothing is left to train
    const auto predict = [&] {
      trainer.predict(*noise_loader(6, 6, false, Ranks()),
                      [&](const at::Tensor& some, const at::Tensor&) { logits[rank] = some; });
    };
    if (rank == 0) predict();
    ranks.any(false);
    if (rank == 1) predict();
    ranks.any(false);
  });
  CHECK(at::equal(logits[0], logits[1]));
}

TEST_CASE("a trainer may be destroyed while a later one trains its model", "[ranks]") {
  std::vector<std::shared_ptr<Model>> models;
  std::vector<int64_t> batches(2);
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    at::manual_seed(3);
    models.push_back(std::make_shared<GroupNormModel>());
  }
  in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    const auto parts = [&] {
      auto made = small_parts(models[rank], 4, 12);
      made.options.parallelism = "fsdp";
      made.train_loader = noise_loader(100, 12, true, ranks);
      made.ranks = ranks;
      return made;
    };
    auto first = std::make_unique<Trainer>(parts());
    first->fit();
    Trainer second(parts());
    second.add<Undertaker>("undertaker", first);
    second.fit();
    batches[rank] = second.state().time.batch;
  });
  CHECK(batches == std::vector<int64_t>{4, 4});
}

TEST_CASE("what needs all weights is refused by name before training", "[ranks]") {
  Setup setup;
  setup.batches = 2;
  setup.add = [](Trainer& trainer) { trainer.add<Unwilling>("unwilling"); };
  CHECK_THROWS_WITH(train_on(2, divided(setup)),
                    Contains("parallelism: fsdp: algorithms.unwilling: does not say"));
  CHECK(train_on(1, divided(setup)).time.batch == 2);  // has no effect
}

TEST_CASE("weights of another rank cannot be read by mistake", "[ranks]") {
  Setup setup;
  setup.batches = 2;
  setup.add = [](Trainer& trainer) { trainer.add<Reader>("reader"); };
  CHECK_THROWS_WITH(train_on(2, divided(setup)),
                    Contains("a weight of another rank is in memory only while its layer runs"));
}

}  // namespace composer::sharded_parameters_test
