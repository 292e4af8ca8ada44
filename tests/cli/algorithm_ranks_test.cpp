// Every algorithm trains on two ranks whose shares are uneven, in microbatches and bf16, and leaves
// both with the same weights, to the bit.
#include <catch2/catch.hpp>
#include <mutex>

#include "acting.h"
#include "base/error.h"
#include "composer/run/assemble.h"
#include "tests/ranks.h"

namespace composer::algorithm_ranks_test {

using namespace composer::acting;

namespace {

struct Ending {
  std::vector<at::Tensor> weights;
  std::map<std::string, at::Tensor> kept;  ///< by the algorithms: averages
  Summary summary;
};

TrainerParts parts_of(const Ranks& ranks, const Names& words) {
  static std::mutex assembling;  // weights are drawn from one generator
  const std::lock_guard lock(assembling);
  const auto resolved = resolve({"recipe", recipe}, words, known());
  auto parts = timeless(assemble_training(resolved));
  const auto open = [&](bool training) {
    auto options = loader_options(resolved.options, parts.context, training);
    options.rank = ranks.rank(), options.world_size = ranks.size();
    return build_dataset(resolved, training)->open(options);
  };
  parts.train_loader = open(true);
  parts.eval_loader = open(false);
  parts.ranks = ranks;
  return parts;
}

Ending train(const Ranks& ranks, const Names& words) {
  const OneThread one_thread;
  Trainer trainer(parts_of(ranks, words));
  Ending ending;
  ending.summary = trainer.fit();
  for (const auto& parameter : trainer.state().model->parameters())
    ending.weights.push_back(parameter.detach());
  for (const auto& algorithm : trainer.engine().algorithms())
    for (const auto& [name, tensor] : algorithm.component->state_dict().tensors)
      ending.kept[algorithm.name + "." + name] = tensor;
  return ending;
}

/// Of two ranks; nothing, with a failed check, where they cannot train.
std::vector<Ending> train_in_ranks(const Names& words) {
  std::vector<Ending> endings(2);
  const Muted muted;
  try {
    test::in_ranks(2, [&](const Ranks& ranks) {
      endings[static_cast<size_t>(ranks.rank())] = train(ranks, words);
    });
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
    endings.clear();
  }
  return endings;
}

void check_in_step(const Names& words) {
  std::string line;
  for (const auto& word : words) line += " " + word;
  INFO(line);
  const auto endings = train_in_ranks(words);
  if (endings.empty()) return;
  const auto& [first, second] = std::tie(endings[0], endings[1]);
  CHECK(first.summary.time.batch == 6);
  CHECK(first.summary.time.sample == 54);
  CHECK(first.summary.metrics == second.summary.metrics);
  for (const auto& [name, value] : first.summary.metrics) {
    INFO(name);
    CHECK(std::isfinite(value));
  }
  REQUIRE(first.weights.size() == second.weights.size());
  for (size_t i = 0; i < first.weights.size(); ++i) {
    CHECK(first.weights[i].isfinite().all().item<bool>());
    CHECK(at::equal(first.weights[i], second.weights[i]));
  }
  REQUIRE(first.kept.size() == second.kept.size());
  for (const auto& [name, tensor] : first.kept) {
    INFO(name);
    CHECK(at::equal(tensor, second.kept.at(name)));
  }
}

/// Nine samples a batch: five and four.
const std::string uneven =
    "--train_batch_size 9 --eval_batch_size 9 --run_dir none --num_workers 1 "
    "--train_dataset.cifar10.synthetic_num_unique_samples 27";

/// False where the recipe refuses them together.
bool compatible(const Names& words) {
  try {
    resolve({"recipe", recipe}, words, known());
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

TEST_CASE("each algorithm leaves two ranks with the same weights", "[cli][ranks][slow]") {
  for (const auto& name : known().algorithms.names())
    check_in_step(words_of({name}) + split(uneven));
  for (const auto* more : {"", "sync_batchnorm"})
    check_in_step(Names{"--algorithms", "stochastic_depth"} + split(more) + split(uneven) +
                  split("--algorithms.stochastic_depth.drop_rate 0.9"));
}

TEST_CASE("so does each algorithm beside sync_batchnorm", "[cli][ranks][long]") {
  int64_t tried = 0;
  for (const auto& name : known().algorithms.names()) {
    const auto words = words_of({name, "sync_batchnorm"}) + split(uneven);
    if (name == "sync_batchnorm" || !compatible(words)) continue;
    check_in_step(words);
    ++tried;
  }
  CHECK(tried > 30);
}

TEST_CASE("so does every optimizer", "[cli][ranks][slow]") {
  for (const auto& name : known().optimizers.names())
    check_in_step(split(uneven) + Names{"--algorithms", "layer_freezing",
                                        "--algorithms.layer_freezing.freeze_start", "0.2",
                                        "--optimizer", name, "--optimizer." + name + ".lr",
                                        "0.01"});
}

namespace {

/// Trains with the algorithm on two ranks that divide weights or the optimizer's state, and on two
/// that do not.
void check_trains_with_divided_weights(const std::string& name) {
  CAPTURE(name);
  auto words = words_of({name}) + split(uneven);
  if (name != "low_precision_norm") words = words + split("--precision fp32");
  // Microbatches are summed in another order, and rounding multiplies last bits.
  if (name == "quantization_aware") words = words + split("--grad_accum 1");
  const auto together = train_in_ranks(words);
  REQUIRE_FALSE(together.empty());
  for (const std::string parallelism : {"zero1", "fsdp"}) {
    CAPTURE(parallelism);
    const auto apart = train_in_ranks(words + split("--parallelism " + parallelism));
    REQUIRE_FALSE(apart.empty());
    REQUIRE(apart[0].weights.size() == together[0].weights.size());
    for (size_t i = 0; i < apart[0].weights.size(); ++i)
      CHECK(at::allclose(apart[0].weights[i], together[0].weights[i], 1e-4, 1e-6));
    for (const auto& [metric, value] : together[0].summary.metrics) {
      if (metric.starts_with("comm/")) continue;
      CAPTURE(metric);
      CHECK(apart[0].summary.metrics.at(metric) == Approx(value).epsilon(1e-3).margin(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("algorithms train with divided weights as without", "[cli][ranks][slow]") {
  for (const char* name : {"ema", "layer_freezing", "sam", "squeeze_excite", "swa"})
    check_trains_with_divided_weights(name);
}

TEST_CASE("each algorithm trains with divided weights as without", "[cli][ranks][long]") {
  for (const auto& name : known().algorithms.names()) check_trains_with_divided_weights(name);
}

}  // namespace composer::algorithm_ranks_test
