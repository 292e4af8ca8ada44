#include "composer/recipe/compatibility.h"

#include <catch2/catch.hpp>

#include "tests/composer/fake_components.h"

namespace composer::compatibility_test {

using namespace composer::test;

namespace {

struct Loner : Algorithm {
  static Compatibility compatibility() {
    return {.excludes = {{"mixup", "both mix"}, {"channels_last", "it has no layout"}}};
  }
};
struct Choosy : Algorithm {
  static Compatibility compatibility() {
    return {.needs = {{"train_dataset.*.samples", {"null", "10"}, "it counts"},
                      {"algorithms.label_smoothing.smoothing", {"0.0", "0.1"}, "it smooths"},
                      {"precision", {"fp32"}, "it is exact"},
                      {"model.*.initializers", {"[ones]"}, "it starts alike"},
                      {"no.such.key", {"1"}, "nobody has it"}}};
  }
};

const Registry& with_compatibility() {
  static Registry registry = known();
  static const bool filled = [] {
    registry.algorithms.add<Loner>("loner");
    registry.algorithms.add<Choosy>("choosy");
    return true;
  }();
  (void)filled;
  return registry;
}

Lines refusals(const std::string& text, const Words& words = {}) {
  try {
    resolve({"r.yaml", text}, words, with_compatibility());
  } catch (const UserError& error) {
    return error.problems();
  }
  return {};
}

const std::string chosen =
    "algorithms:\n  label_smoothing:\n    smoothing: 0.2\n  channels_last:\n";
const std::string fine = "--net.initializers=ones";

}  // namespace

TEST_CASE("an excluded pair is refused at the place of the algorithm that says so") {
  CHECK(refusals(with(chosen, "algorithms: [loner]\n")).empty());
  const Lines refused{
      "r.yaml:21:3: algorithms.loner: does not go with mixup: both mix; remove one of them"};
  CHECK(refusals(with(chosen, "algorithms:\n  mixup:\n  label_smoothing:\n  loner:\n")) ==
        Lines{"r.yaml:23:3: algorithms.loner: does not go with mixup: both mix; remove one of "
              "them"});
  CHECK(refusals(with(chosen, "algorithms:\n  loner:\n  mixup:\n")) == refused);
  CHECK(refusals(with(chosen, "algorithms: [mixup, loner]\n")) ==
        Lines{"r.yaml:20:21: algorithms.loner: does not go with mixup: both mix; remove one of "
              "them"});
  CHECK(refusals(base, {"--algorithms", "mixup", "loner"}) ==
        Lines{"--algorithms: algorithms.loner: does not go with mixup: both mix; remove one of "
              "them"});
}

TEST_CASE("everything that does not go together is said at once") {
  CHECK(refusals(base, {"--algorithms", "loner", "mixup", "channels_last"}).size() == 2);
  CHECK(refusals(base, {"--algorithms", "loner", "mixup", "choosy"}).size() == 2);
}

TEST_CASE("a key that is there must have a value that is needed") {
  const Words choose{"--algorithms", "choosy"};
  const auto words = [&](const Words& more) {
    Words all = choose;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  CHECK(refusals(base, words({fine})).empty());
  CHECK(refusals(base, words({fine, "--train_dataset.pictures.samples", "10"})).empty());
  CHECK(refusals(base, words({fine, "--train_dataset.pictures.samples", "11"})) ==
        Lines{"--algorithms: algorithms.choosy: needs train_dataset.pictures.samples: null or 10, "
              "not 11: it counts"});
  CHECK(refusals(base, words({fine, "--val_dataset.pictures.samples", "11"})).empty());
  CHECK(refusals(base, words({fine, "--precision", "amp"})) ==
        Lines{"--algorithms: algorithms.choosy: needs precision: fp32, not amp: it is exact"});
  CHECK(refusals(base, words({})) ==
        Lines{"--algorithms: algorithms.choosy: needs model.net.initializers: [ones], not "
              "[kaiming, ones]: it starts alike"});
  CHECK(refusals(base, {"--algorithms", "choosy", "label_smoothing", fine}) ==
        Lines{"--algorithms: algorithms.choosy: needs algorithms.label_smoothing.smoothing: 0.0 or "
              "0.1, not 0.2: it smooths"});
  CHECK(refusals(with(chosen, "algorithms: [choosy]\n"), {fine, "--precision", "amp"}) ==
        Lines{"r.yaml:20:14: algorithms.choosy: needs precision: fp32, not amp: it is exact"});
}

}  // namespace composer::compatibility_test
