// lr-range: the learning-rate range test of a recipe.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "look.h"
#include "study.h"
#include "tests/temporary_folder.h"

namespace composer::lr_range_test {

using Catch::Contains;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::string recipe = study_recipe(R"(schedulers: {cosine_decay_with_warmup: {t_warmup: 2ep}}
train_batch_size: 32
max_duration: 100ep
)");

const std::string words = "lr-range -f recipe.yaml --steps 40 --lr_min 1e-4 --lr_max 1e4 ";

}  // namespace

TEST_CASE("lr-range follows the loss and leaves nothing behind", "[cli][study]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto outcome = run(folder.path(), split(words + "--output lr.html --json"));
  INFO(outcome.errors);
  REQUIRE(outcome.status == 0);
  const auto range = json::parse(outcome.output);
  const auto& steps = range.at("steps");
  REQUIRE(steps.size() >= 10);
  CHECK(steps[0].at("lr").get<double>() == Approx(1e-4));
  CHECK(steps[1].at("lr").get<double>() / steps[0].at("lr").get<double>() ==
        Approx(std::pow(1e8, 1.0 / 39)));
  CHECK(steps[0].at("loss").get<double>() == Approx(std::log(10)).margin(1));
  CHECK(range.at("diverged") == true);  // the recipe's own rate would not
  CHECK(steps.size() < 40);             // which ends the test
  CHECK(range.at("suggestion").is_null() != range.at("problem").is_null());
  CHECK(fs::file_size(folder / "lr.html") > 0);
  CHECK_FALSE(fs::exists(folder / "runs"));

  const auto again = run(folder.path(), split(words));
  CHECK(again.status == 0);
  CHECK_THAT(again.output, Contains("against the learning rate") && Contains("suggestion"));
}

TEST_CASE("lr-range refuses what makes no sense", "[cli][study][slow]") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& more, const std::string& part) {
    const auto outcome = look(folder.path(), split("lr-range " + more));
    INFO(more << "\n" << outcome.errors);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(part));
  };
  refused("--lr_min 0", "--lr_min: must be a number above 0");
  refused("--lr_min 1 --lr_max 0.1", "--lr_min: must be below --lr_max");
  refused("--steps 3", "--steps: must be at least 20, not 3");
  refused("--stepps 30", "did you mean 'steps'?");
  folder.write("recipe.yaml", "seed: 1\n");
  refused("--output recipe.yaml", "--output: recipe.yaml is there already, and is no page");
  refused("--output new.yaml", "--output: new.yaml: what is written is a page for a browser");
  refused("--output none/lr.html", "--output: there is no folder none");
  refused("--output .", "--output: . is a folder; name a file");
}

}  // namespace composer::lr_range_test
