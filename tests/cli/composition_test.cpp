// Algorithms compose: alone, in pairs and by fives they train in microbatches and bf16, and a run
// that was killed in mid-epoch and resumed ends in the same bytes as one that was left alone.
//   test_cli "[composition]~[long]"    each alone, some pairs, five together: seconds
//   test_cli "[composition][.long]"    all pairs and fifty fives; every algorithm on ResNet-50
#include <ATen/Context.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "acting.h"
#include "base/error.h"
#include "base/random.h"
#include "composer/run/assemble.h"
#include "program.h"
#include "tests/gpu.h"
#include "tests/temporary_folder.h"

namespace composer::composition_test {

using namespace composer::acting;
namespace fs = std::filesystem;

namespace {

constexpr int64_t killed_after = 4;

/// Change how a run computes, but none of its values, where there is one rank.
const std::set<std::string> without_trace{"channels_last", "sync_batchnorm"};

/// Takes no notice of what is done to images, labels and layers.
const std::string without_notice = "no_op_model";

std::string joined(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

/// Whether the catalog lets the algorithms stand together.
bool compatible(const Names& algorithms) {
  try {
    resolve({"recipe", recipe}, words_of(algorithms), known());
    return true;
  } catch (const UserError& error) {
    for (const auto& problem : error.problems()) {
      INFO(joined(algorithms) << ": " << problem);
      CHECK(problem.starts_with("--algorithms: algorithms."));
    }
    return false;
  }
}

struct Killed : RunError {
  Killed() : RunError("killed") {}
};

class Killer : public Callback {
 public:
  void batch_start(const State& state, Logger&, RunControl&) override {
    if (state.time.batch == killed_after) throw Killed();
  }
};

Summary train(const Names& words, bool killed) {
  const Muted muted;
  const OneThread one_thread;
  Trainer trainer(timeless(assemble_training(resolve({"recipe", recipe}, words, known()))));
  if (killed) trainer.add<Killer>("killer");
  return trainer.fit();
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a run ends with, by name: the bytes of tensors, values, metrics.
using Ending = std::map<std::string, std::string>;

Ending ending(const fs::path& run, const Summary& summary) {
  Ending all;
  const auto checkpoint = run / "checkpoints/latest";
  for (const char* part : {"model", "optimizer", "state"})
    all[part] = bytes_of(checkpoint / (std::string(part) + "-00001-of-00001.safetensors"));
  const auto manifest = nlohmann::json::parse(bytes_of(checkpoint / "manifest.json"));
  all["values"] = manifest.at("parts").dump() + manifest.at("optimizer").dump();
  for (const auto& [name, value] : summary.metrics) {
    INFO(name);
    CHECK(std::isfinite(value));
    if (name != "checkpoint/stall_seconds" && !name.starts_with("time/"))
      all[name] = std::to_string(value);
  }
  return all;
}

Ending uninterrupted(const Names& algorithms, const Names& more = {}) {
  const TemporaryFolder folder;
  const auto words =
      words_of(algorithms) + more + Names{"--run_dir", folder.path(), "--run_name", "run"};
  const auto summary = train(words + Names{"--num_workers", "2"}, false);
  return ending(folder / "run", summary);
}

Ending resumed(const Names& algorithms, const Names& more = {}) {
  const TemporaryFolder folder;
  const auto words =
      words_of(algorithms) + more + Names{"--run_dir",    folder.path(), "--run_name",    "run",
                                          "--autoresume", "true",        "--num_workers", "0"};
  CHECK_THROWS_AS(train(words, true), Killed);
  CHECK(fs::exists(folder / "run/checkpoints/ep1-ba4/manifest.json"));
  const auto summary = train(words, false);
  CHECK(summary.time.batch == 6);
  return ending(folder / "run", summary);
}

/// Returns what the run ends with.
Ending check(const Names& algorithms, const Names& more = {}) {
  INFO("--algorithms " << joined(algorithms) << " " << joined(more));
  try {
    auto whole = uninterrupted(algorithms, more);
    const auto again = resumed(algorithms, more);
    for (const auto& [name, value] : whole) {
      INFO(name);
      CHECK(again.contains(name));
      if (again.contains(name)) CHECK((value == again.at(name)));
    }
    return whole;
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
    return {};
  }
}

void check_alone(const Names& more = {}) {
  const auto plain = check({}, more);
  for (const auto& name : known().algorithms.names()) {
    const auto ending = check({name}, more);
    INFO(name << " leaves no trace: give it settings in acting.h that make it act");
    if (!without_trace.contains(name)) CHECK((ending != plain));
  }
}

/// What a run with one algorithm ends with.
const Ending& ending_alone(const std::string& name) {
  static std::map<std::string, Ending> known;
  if (!known.contains(name)) known[name] = uninterrupted({name});
  return known[name];
}

void check_pair(const Names& pair) {
  if (!compatible(pair)) return;
  const auto both = check(pair);
  if (std::ranges::count(pair, without_notice) > 0) return;
  for (size_t i = 0; i < 2; ++i) {
    INFO(pair[i] << " leaves no trace beside " << pair[1 - i]);
    if (!without_trace.contains(pair[i])) CHECK((both != ending_alone(pair[1 - i])));
  }
}

Names shuffled(Random random) {
  auto names = known().algorithms.names();
  for (auto left = names.size(); left > 1; --left)
    std::swap(names[left - 1],
              names[static_cast<size_t>(random.below(static_cast<int64_t>(left)))]);
  return names;
}

void check_fives(uint64_t count) {
  for (uint64_t drawn = 0, index = 0; drawn < count; ++index) {
    REQUIRE(index < 10 * count);
    auto names = shuffled(Random(5, "composition.fives", 0, index));
    names.resize(5);
    if (!compatible(names)) continue;
    check(names);
    ++drawn;
  }
}

/// What `composer train -f resnet50` takes for one algorithm at its defaults.
Names on_resnet50(const std::string& algorithm) {
  const auto required = algorithm == "gradient_clipping"
                            ? "--algorithms.gradient_clipping.clipping_type norm "
                              "--algorithms.gradient_clipping.clipping_threshold 1"
                            : "";
  return Names{"--algorithms", algorithm} + split(required);
}

}  // namespace

TEST_CASE("the settings of the composition tests name algorithms that exist",
          "[cli][composition]") {
  for (const auto& [name, words] : settings) CHECK(known().algorithms.contains(name));
}

TEST_CASE("each algorithm acts and resumes to the bit", "[cli][composition][slow]") {
  check_alone();
}

TEST_CASE("each algorithm resumes to the bit on the GPU", "[cli][composition][gpu]") {
  if (test::has_gpu()) check_alone({"--device", "gpu", "--deterministic_mode", "true"});
}

TEST_CASE("some pairs and fives of algorithms resume to the bit", "[cli][composition][slow]") {
  const auto names = shuffled(Random(2, "composition.ring", 0, 0));
  for (size_t i = 0; i + 1 < names.size(); i += 4) check_pair({names[i], names[i + 1]});
  check_fives(1);
}

TEST_CASE("a ring of pairs and more fives of algorithms resume to the bit",
          "[cli][composition][long]") {
  const auto ring = shuffled(Random(2, "composition.ring", 0, 0));
  for (size_t i = 0; i < ring.size(); ++i) check_pair({ring[i], ring[(i + 1) % ring.size()]});
  check_fives(5);
}

TEST_CASE("algorithms resume to the bit with every optimizer", "[cli][composition][slow]") {
  for (const auto& name : known().optimizers.names())
    check({"bias_lr_scale", "layer_freezing", "lookahead", "sam"},
          {"--optimizer", name, "--optimizer." + name + ".lr", "0.01"});
}

TEST_CASE("all pairs and fifty fives of algorithms resume to the bit",
          "[cli][composition][.long]") {
  const auto names = known().algorithms.names();
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      check_pair((i + j) % 2 == 0 ? Names{names[i], names[j]} : Names{names[j], names[i]});
  check_fives(50);
}

TEST_CASE("ResNet-50's recipe takes each algorithm with its defaults", "[cli][composition]") {
  for (const auto& name : known().algorithms.names()) {
    INFO(name);
    const auto dumped = dump(resolve(find_recipe("resnet50"), on_resnet50(name), known()));
    CHECK(dumped.find("algorithms:\n  " + name) != std::string::npos);
    CHECK(dump(resolve({"dump", dumped}, {}, known())) == dumped);
  }
}

TEST_CASE("ResNet-50 trains with each algorithm at its defaults", "[cli][composition][.long]") {
  const TemporaryFolder folder;
  const auto common = split(
      "train -f resnet50 --use_synthetic true --train_dataset.imagenet.crop_size 64 "
      "--val_dataset none --train_batch_size 8 --grad_accum 2 --precision bf16 --device cpu "
      "--max_duration 2ba --run_dir none --num_workers 1");
  for (const auto& name : known().algorithms.names()) {
    const auto trained = run(folder.path(), common + on_resnet50(name));
    INFO(name << "\n" << trained.errors);
    CHECK(trained.status == 0);
    CHECK(trained.errors.find("completed after 0 epochs, 2 batches") != std::string::npos);
  }
}

}  // namespace composer::composition_test
