// sweep: values of keys, grids, draws and successive halving.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "cli/sweep_axes.h"
#include "look.h"
#include "study.h"

namespace composer::sweep_test {

using Catch::Contains;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::string recipe = study_recipe(R"(train_batch_size: 16
max_duration: 9ba
eval_interval: 1ep
loggers: none
)");

struct Folder : StudyFolderWith {
  Folder() : StudyFolderWith(recipe) {}
};

Outcome sweep(const TemporaryFolder& folder, const std::vector<std::string>& words) {
  return run(folder.path(), split("sweep -f recipe.yaml") + words);
}

std::string problem_of(const Words& words) {
  try {
    grid_of(divided(words).axes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("values between commas are an axis, other words are kept", "[cli][study]") {
  const auto words = divided({"--lr", "0.1,0.2", "--max_duration", "2ep", "--class_weights", "1",
                              "2", "--autoresume", "--algorithms", "[ema blurpool],[none]",
                              "--run_name", "'a,b'", "--grad_clip_norm=-1,2"});
  CHECK(words.fixed ==
        Words{"--max_duration=2ep", "--class_weights", "1", "2", "--autoresume", "--run_name=a,b"});
  REQUIRE(words.axes.size() == 3);
  CHECK(words.axes[0].key == "lr");
  CHECK(words.axes[0].values == std::vector<Words>{{"0.1"}, {"0.2"}});
  CHECK(words.axes[1].values == std::vector<Words>{{"ema", "blurpool"}, {"none"}});
  CHECK(words.axes[2].values == std::vector<Words>{{"-1"}, {"2"}});
  const auto points = grid_of(words.axes);
  CHECK(points.size() == 8);
  CHECK(name_of(words.axes, points[1]) == "lr 0.1, algorithms ema blurpool, grad_clip_norm 2");
  CHECK(words_of(words.axes, points[1]) ==
        Words{"--lr=0.1", "--algorithms", "ema", "blurpool", "--grad_clip_norm=2"});
}

TEST_CASE("values that make no sense are refused", "[cli][study]") {
  CHECK_THAT(problem_of({"--lr", "0.1,,0.2"}), Contains("--lr: '0.1,,0.2': a value is empty"));
  CHECK_THAT(problem_of({"--lr", "0.1,"}), Contains("a value is empty"));
  CHECK_THAT(problem_of({"--lr", "0.1,0.1"}), Contains("'0.1' is given twice"));
  CHECK_THAT(problem_of({"--algorithms", "[a b,c"}), Contains("'[' is not closed"));
  CHECK_THAT(problem_of({"--algorithms", "[],a"}), Contains("[] is empty"));
  CHECK_THAT(problem_of({"--run_name", "'a,b"}), Contains("is not closed"));
  CHECK_THAT(problem_of({"--lr", "1..0.1"}), Contains("LOW..HIGH with 0 < LOW < HIGH"));
  CHECK_THAT(problem_of({"--lr", "0.1..1"}), Contains("--random N"));
  CHECK(problem_of({"--datadir", "../data"}).empty());
}

TEST_CASE("points are drawn by the seed, each once", "[cli][study]") {
  const auto grid = divided({"--lr", "1,2,3,4", "--momentum", "0.8,0.9"}).axes;
  const auto drawn = drawn_points(grid, 5, 17);
  CHECK(drawn.size() == 5);
  CHECK(std::set<SweepPoint>(drawn.begin(), drawn.end()).size() == 5);
  CHECK(drawn == drawn_points(grid, 5, 17));
  CHECK(drawn != drawn_points(grid, 5, 18));
  CHECK(drawn_points(grid, 100, 17).size() == 8);

  const auto ranges = divided({"--lr", "0.001..1", "--train_batch_size", "8..64"}).axes;
  const auto points = drawn_points(ranges, 400, 17);
  REQUIRE(points.size() == 400);
  double logarithms = 0;
  for (const auto& point : points) {
    const double lr = std::stod(point[0][0]);
    CHECK((lr >= 0.001 && lr <= 1));
    CHECK(point[1][0].find('.') == std::string::npos);
    logarithms += std::log10(lr) / 400;
  }
  CHECK(logarithms == Approx(-1.5).margin(0.15));
}

TEST_CASE("successive halving ends with one point at full length", "[cli][study]") {
  const auto rounds = halving_rounds(10);
  REQUIRE(rounds.size() == 3);
  CHECK(rounds[0].points == 10);
  CHECK(rounds[0].length == Approx(1.0 / 9));
  CHECK(rounds[1].points == 3);
  CHECK(rounds[1].length == Approx(1.0 / 3));
  CHECK(rounds[2].points == 1);
  CHECK(rounds[2].length == 1);
  CHECK(halving_rounds(2).size() == 1);
}

TEST_CASE("sweep trains a grid and writes the best recipe", "[cli][study]") {
  const Folder folder;
  const auto words = split("--lr 0.05,0.2 --scale_schedule_ratio 0.4,1 --price_per_hour 36 --json");
  const auto outcome = sweep(folder, words);
  const auto study = json_in(outcome);
  REQUIRE(outcome.status == 0);
  const auto& variants = study.at("variants");
  REQUIRE(variants.size() == 4);
  CHECK(variants[0].at("name") == "lr 0.05, scale_schedule_ratio 0.4");
  CHECK(variants[0].at("samples") == 3 * 16);
  CHECK(variants[1].at("samples") == 9 * 16);
  CHECK(variants[0].at("cost").get<double>() ==
        Approx(variants[0].at("seconds").get<double>() / 100));
  const auto made = folder / "sweeps/recipe";
  const auto best = run(folder.path(), split("train -f sweeps/recipe/best.yaml --plan"));
  CHECK(best.status == 0);
  std::ifstream page(made / "report.html");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  CHECK_THAT(text, Contains("against time") && Contains("against cost"));

  const auto again = sweep(folder, words);
  CHECK_THAT(again.errors, Contains("of which 4 are done"));
  CHECK(json_in(again).at("variants") == variants);
}

TEST_CASE("sweep halves, and goes on where it was", "[cli][study]") {
  const Folder folder;
  const auto words =
      split("--random 3 --lr 0.01..0.5 --halving --seeds 2 --metric loss/train --json");
  const auto outcome = sweep(folder, words);
  const auto study = json_in(outcome);
  REQUIRE(outcome.status == 0);
  const auto& variants = study.at("variants");
  REQUIRE(variants.size() == 4);
  double least = INFINITY;
  std::string best;
  for (size_t i = 0; i < 3; ++i) {
    CHECK(variants[i].at("round") == "1 of 2");
    CHECK(variants[i].at("samples") == 3 * 16);
    if (const double mean = variants[i].at("metric").at("mean"); mean < least)
      least = mean, best = variants[i].at("name");
  }
  CHECK(variants[3].at("round") == "2 of 2");
  CHECK(variants[3].at("samples") == 9 * 16);
  CHECK(variants[3].at("name") == best);
  CHECK(study.at("best") == best);
  fs::remove_all(folder / "sweeps/recipe/runs/" /
                 variants[3].at("runs")[0].at("run").get<std::string>());
  const auto again = sweep(folder, words);
  CHECK(again.status == 0);
  const auto results = [](const json& one) {
    auto values = json::array();
    for (const auto& variant : one.at("variants")) values.push_back(variant.at("metric"));
    return values;
  };
  CHECK(results(json_in(again)) == results(study));
}

TEST_CASE("sweep refuses what makes no sense before anything starts", "[cli][study][slow]") {
  const Folder folder;
  const auto refused = [&](const std::string& words, const std::string& part) {
    const auto outcome = look(folder.path(), split("sweep -f recipe.yaml " + words));
    INFO(words << "\n" << outcome.errors);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(part));
    CHECK_FALSE(fs::exists(folder / "sweeps"));
  };
  refused("", "no key has several values");
  refused("--lr 0.1,abc", "optimizer.sgd.lr");
  refused("--momemtum 0.8,0.9", "did you mean 'momentum'?");
  refused("--lr 0.1..1", "--random N");
  refused("--lr 0.1,0.2 --halving", "needs at least 3 points, there are 2");
  refused("--lr 0.1,0.2,0.3 --halving --max_duration 2ep", "which rounds to 0");
  refused("--lr 0.1,0.2,0.3 --scale_schedule_ratio 0.5,1 --halving", "--halving sets it");
  refused("--seed 1,2", "--seeds N");
  refused("--lr 0.1,0.2 --random 0", "--random: must be at least 1");
  refused("--scale_schedule_ratio 0.01,1", "nothing is left");
}

}  // namespace composer::sweep_test
