#include "nn/optimization/schedulers.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/error.h"
#include "composer/run/builtin.h"

namespace composer::schedulers_test {

namespace {

Time time(const char* text) { return Time::parse(text).value(); }

Timestamp at_batch(int64_t batch, const RunLength& run_length) {
  Timestamp now;
  now.batch = batch;
  now.epoch = batch / run_length.batches_per_epoch;
  now.batch_in_epoch = batch % run_length.batches_per_epoch;
  return now;
}

template <class P>
double alpha(const P& params, const RunLength& run_length, int64_t batch, double ratio = 1) {
  return ScheduledBy<P>(params).multiplier(at_batch(batch, run_length), run_length, ratio);
}

RunLength imagenet(const char* duration) { return {625, 1280000, 2048, time(duration)}; }
RunLength cifar(const char* duration) { return {48, 49152, 1024, time(duration)}; }
const RunLength hundred{10, 1000, 100, time("10ep")};  // 100 batches

CosineDecayWithWarmup cosine_after(const char* warmup) {
  CosineDecayWithWarmup params;
  params.t_warmup = time(warmup);
  return params;
}

}  // namespace

TEST_CASE("triangular rises to the peak and falls, as airbench and FFCV have it", "[schedulers]") {
  Triangular airbench;
  airbench.t_peak = time("0.23dur"), airbench.alpha_i = 0.2, airbench.alpha_f = 0.07;
  const auto run = cifar("476ba");
  CHECK(alpha(airbench, run, 0) == Approx(0.2));
  CHECK(alpha(airbench, run, 54) == Approx(0.2 + 0.8 * 54 / 109));
  CHECK(alpha(airbench, run, 109) == Approx(1));
  CHECK(alpha(airbench, run, 292) == Approx(1 - 0.93 * 183 / 367));
  CHECK(alpha(airbench, run, 476) == Approx(0.07));
  CHECK(alpha(airbench, run, 900) == Approx(0.07));
  Triangular ffcv;
  ffcv.t_peak = time("2ep"), ffcv.alpha_i = 1e-4;
  const auto rn50 = imagenet("16ep");
  CHECK(alpha(ffcv, rn50, 0) == Approx(1e-4));
  CHECK(alpha(ffcv, rn50, 1250) == Approx(1));
  CHECK(alpha(ffcv, rn50, 5625) == Approx(0.5));
  CHECK(alpha(ffcv, rn50, 10000) == Approx(0).margin(1e-12));
  CHECK(ScheduledBy(ffcv).check(rn50, 1).empty());
  CHECK_THAT(ScheduledBy(ffcv).check(imagenet("1ep"), 1).at(0), Catch::StartsWith("t_peak: 2ep"));
  airbench.t_peak = time("0ba");
  CHECK(alpha(airbench, run, 0) == Approx(1));
}

TEST_CASE("ResNet-50's cosine with warm-up, also shortened", "[schedulers]") {
  const auto params = cosine_after("8ep");
  const auto full = imagenet("90ep");
  CHECK(alpha(params, full, 0) == 0);
  CHECK(alpha(params, full, 1) == Approx(0.0002));
  CHECK(alpha(params, full, 2500) == Approx(0.5));
  CHECK(alpha(params, full, 5000) == Approx(1));
  CHECK(alpha(params, full, 28125) == Approx(0.576325).epsilon(1e-5));
  CHECK(alpha(params, full, 56250) == Approx(0).margin(1e-12));
  CHECK(alpha(params, full, 60000) == Approx(0).margin(1e-12));

  auto half = full, third = full;
  half.max_duration = scale_duration(full.max_duration, 0.5);
  third.max_duration = scale_duration(full.max_duration, 0.36);
  CHECK(half.max_duration == time("45ep"));
  CHECK(third.max_duration == time("32ep"));
  CHECK(alpha(params, half, 14062, 0.5) == Approx(0.666602).epsilon(1e-5));
  CHECK(alpha(params, third, 10000, 0.36) == Approx(0.75));
  CHECK(alpha(params, half, 2500, 0.5) == Approx(0.5));

  auto scaled = params;
  scaled.scale_warmup = true;
  CHECK(alpha(scaled, half, 1250, 0.5) == Approx(0.5));
}

TEST_CASE("CIFAR's milestones with warm-up, also shortened", "[schedulers]") {
  MultiStepWithWarmup params;
  params.t_warmup = time("5ep");
  params.milestones = {time("80ep"), time("120ep")};
  const auto check = [&](const RunLength& run_length, double ratio, int64_t first, int64_t second) {
    CHECK(alpha(params, run_length, 120, ratio) == Approx(0.5));
    CHECK(alpha(params, run_length, 239, ratio) == Approx(239.0 / 240));
    CHECK(alpha(params, run_length, 240, ratio) == 1);
    CHECK(alpha(params, run_length, first - 1, ratio) == 1);
    CHECK(alpha(params, run_length, first, ratio) == Approx(0.1));
    CHECK(alpha(params, run_length, second - 1, ratio) == Approx(0.1));
    CHECK(alpha(params, run_length, second, ratio) == Approx(0.01));
  };
  check(cifar("160ep"), 1, 3840, 5760);
  check(cifar("40ep"), 0.25, 960, 1440);
}

TEST_CASE("each schedule follows its formula", "[schedulers]") {
  SECTION("constant") {
    Constant params;
    params.factor = 0.3, params.t_max = time("2ep");
    CHECK(alpha(params, hundred, 19) == 0.3);
    CHECK(alpha(params, hundred, 20) == 1);
  }
  SECTION("step") {
    StepDecay params;
    params.step_size = time("2ep"), params.gamma = 0.5;
    CHECK(alpha(params, hundred, 19) == 1);
    CHECK(alpha(params, hundred, 20) == 0.5);
    CHECK(alpha(params, hundred, 59) == 0.25);
    CHECK(alpha(params, hundred, 10, 0.5) == 0.5);
    CHECK(alpha(params, hundred, 3, 0.001) == 0.125);  // never less than a batch
  }
  SECTION("multistep in mixed units") {
    MultiStep params;
    params.milestones = {time("0.5dur"), time("20ba"), time("3000sp")};
    CHECK(alpha(params, hundred, 19) == 1);
    CHECK(alpha(params, hundred, 20) == Approx(0.1));
    CHECK(alpha(params, hundred, 30) == Approx(0.01));
    CHECK(alpha(params, hundred, 49) == Approx(0.01));
    CHECK(alpha(params, hundred, 50) == Approx(0.001));
    auto half = hundred;  // ba and sp are halved, dur follows the run
    half.max_duration = scale_duration(hundred.max_duration, 0.5);
    CHECK(alpha(params, half, 10, 0.5) == Approx(0.1));
    CHECK(alpha(params, half, 15, 0.5) == Approx(0.01));
    CHECK(alpha(params, half, 25, 0.5) == Approx(0.001));
  }
  SECTION("exponential") {
    Exponential params;
    params.gamma = 0.9;
    CHECK(alpha(params, hundred, 15) == Approx(std::pow(0.9, 1.5)));
    CHECK(alpha(params, hundred, 15, 0.5) == Approx(std::pow(0.9, 3)));
  }
  SECTION("linear_decay") {
    LinearDecay params;
    params.alpha_i = 0.8, params.alpha_f = 0.2, params.t_max = time("0.5dur");
    CHECK(alpha(params, hundred, 0) == Approx(0.8));
    CHECK(alpha(params, hundred, 25) == Approx(0.5));
    CHECK(alpha(params, hundred, 70) == Approx(0.2));
  }
  SECTION("cosine_decay") {
    CosineDecay params;
    params.alpha_f = 0.1;
    CHECK(alpha(params, hundred, 0) == 1);
    CHECK(alpha(params, hundred, 50) == Approx(0.55));
    CHECK(alpha(params, hundred, 25) == Approx(0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2));
    CHECK(alpha(params, hundred, 100) == Approx(0.1));
  }
  SECTION("cosine_warmrestart") {
    CosineWarmRestart params;
    params.t_0 = time("10ba");
    CHECK(alpha(params, hundred, 5) == Approx(0.5));
    CHECK(alpha(params, hundred, 10) == 1);
    CHECK(alpha(params, hundred, 95) == Approx(0.5));
    params.t_mult = 1.5;  // cycles of 10, 15, 22, 33 batches
    CHECK(alpha(params, hundred, 10) == 1);
    CHECK(alpha(params, hundred, 24) == Approx((1 + std::cos(M_PI * 14 / 15)) / 2));
    CHECK(alpha(params, hundred, 25) == 1);
    CHECK(alpha(params, hundred, 36) == Approx(0.5));
    CHECK(alpha(params, hundred, 47) == 1);
    CHECK(alpha(params, hundred, 80) == 1);
  }
  SECTION("polynomial") {
    Polynomial params;
    params.power = 3, params.alpha_f = 0.1;
    CHECK(alpha(params, hundred, 0) == 1);
    CHECK(alpha(params, hundred, 50) == Approx(0.1 + 0.9 * 0.125));
    CHECK(alpha(params, hundred, 120) == Approx(0.1));
  }
  SECTION("constant_with_warmup") {
    ConstantWithWarmup params;
    params.t_warmup = time("10ba"), params.factor = 0.5;
    CHECK(alpha(params, hundred, 5) == Approx(0.25));
    CHECK(alpha(params, hundred, 10) == 0.5);
    CHECK(alpha(params, hundred, 99) == 0.5);
  }
  SECTION("linear_decay_with_warmup") {
    LinearDecayWithWarmup params;
    params.t_warmup = time("0.2dur"), params.alpha_i = 0.8, params.alpha_f = 0.2;
    CHECK(alpha(params, hundred, 10) == Approx(0.4));
    CHECK(alpha(params, hundred, 20) == Approx(0.8));
    CHECK(alpha(params, hundred, 60) == Approx(0.5));
    CHECK(alpha(params, hundred, 100) == Approx(0.2));
  }
  SECTION("poly_decay_with_warmup") {
    PolyDecayWithWarmup params;
    params.t_warmup = time("2ep");
    CHECK(alpha(params, hundred, 10) == Approx(0.5));
    CHECK(alpha(params, hundred, 20) == 1);
    CHECK(alpha(params, hundred, 60) == Approx(0.25));
    CHECK(alpha(params, hundred, 101) == 0);
  }
}

TEST_CASE("interval epoch holds the learning rate within an epoch", "[schedulers]") {
  CosineDecay params;
  params.interval = "epoch";
  CHECK(alpha(params, hundred, 59) == Approx(0.5));
  CHECK(alpha(params, hundred, 50) == Approx(0.5));
  CHECK(alpha(params, hundred, 49) == alpha(params, hundred, 40));
}

TEST_CASE("several schedulers multiply", "[schedulers]") {
  StepDecay drops;
  drops.step_size = time("5ep");
  const std::vector<std::shared_ptr<Scheduler>> both{
      std::make_shared<ScheduledBy<StepDecay>>(drops),
      std::make_shared<ScheduledBy<CosineDecay>>(CosineDecay())};
  CHECK(multiplier(both, at_batch(50, hundred), hundred) == Approx(0.05));
  CHECK(multiplier({}, at_batch(50, hundred), hundred) == 1);
}

TEST_CASE("learning rates follow the planned length of a run that ends early", "[schedulers]") {
  const std::vector<std::shared_ptr<Scheduler>> cosine{
      std::make_shared<ScheduledBy<CosineDecay>>(CosineDecay())};
  auto shortened = hundred;
  shortened.planned = hundred.max_duration;
  shortened.max_duration = time("6ep");
  for (const int64_t batch : {0, 30, 59})
    CHECK(multiplier(cosine, at_batch(batch, hundred), shortened) ==
          multiplier(cosine, at_batch(batch, hundred), hundred));
  CHECK(shortened.total_batches() == 60);
  CHECK(shortened.elapsed(at_batch(30, hundred)) == 0.5);
  CHECK(shortened.as_planned().total_batches() == 100);
  shortened.planned.reset();
  CHECK(multiplier(cosine, at_batch(30, hundred), shortened) == Approx(0.5));
}

TEST_CASE("a limit in seconds is followed by shares and seconds only", "[schedulers]") {
  const RunLength timed{10, 1000, 100, time("60sec")};
  Timestamp now = at_batch(12345, timed);
  now.seconds = 30;
  CHECK(ScheduledBy(CosineDecay()).multiplier(now, timed, 1) == Approx(0.5));
  CHECK(ScheduledBy(cosine_after("20sec")).multiplier(now, timed, 1) ==
        Approx((1 + std::cos(M_PI / 4)) / 2));
  CHECK(ScheduledBy(cosine_after("1dur")).multiplier(now, timed, 1) == Approx(0.5));

  MultiStep epochs;  // epochs alone need not know the run's length
  epochs.milestones = {time("3ep")};
  CHECK(alpha(epochs, timed, 29) == 1);
  CHECK(alpha(epochs, timed, 30) == Approx(0.1));
  ConstantWithWarmup warm;
  warm.t_warmup = time("2ep");
  CHECK(alpha(warm, timed, 10) == Approx(0.5));
  CHECK(ScheduledBy(warm).check(timed, 1).empty());

  CHECK_THROWS_WITH(ScheduledBy(cosine_after("8ep")).check(timed, 1), Catch::Contains("8ep"));
  CosineDecay by_epoch;
  by_epoch.interval = "epoch";
  CHECK_THROWS_AS(ScheduledBy(by_epoch).check(timed, 1), UserError);
  CHECK_THROWS_WITH(ScheduledBy(cosine_after("9sec")).check(hundred, 1), Catch::Contains("9sec"));
  auto late = cosine_after("2ep");
  late.t_max = time("9sec");
  CHECK_THROWS_WITH(ScheduledBy(late).check(hundred, 1), Catch::Contains("9sec"));
}

TEST_CASE("a time that cannot be placed is told with its parameter", "[schedulers]") {
  const RunLength timed{10, 1000, 100, time("30sec")};
  CHECK_THROWS_WITH(ScheduledBy(cosine_after("8ep")).check(timed, 1),
                    "t_warmup: 8ep cannot be placed in a run of 30sec beside times in sec or dur; "
                    "use sec or dur");
  MultiStepWithWarmup drops;
  drops.t_warmup = time("1sec"), drops.milestones = {time("2sec"), time("3ep"), time("4ba")};
  try {
    ScheduledBy(drops).check(timed, 1);
    FAIL("no error");
  } catch (const UserError& error) {
    REQUIRE(error.problems().size() == 2);
    CHECK_THAT(error.problems()[0], Catch::StartsWith("milestones: 3ep "));
    CHECK_THAT(error.problems()[1], Catch::StartsWith("milestones: 4ba "));
  }
  CHECK_THROWS_WITH(ScheduledBy(cosine_after("9sec")).check(hundred, 1),
                    Catch::StartsWith("t_warmup: 9sec"));
}

TEST_CASE("warm-ups of nothing and beyond the run are warned of", "[schedulers]") {
  const auto warnings = [](const char* warmup, const char* duration) {
    return ScheduledBy(cosine_after(warmup)).check(imagenet(duration), 1);
  };
  CHECK(warnings("8ep", "90ep").empty());
  REQUIRE(warnings("0ep", "90ep").size() == 1);
  CHECK_THAT(warnings("0ep", "90ep")[0], Catch::StartsWith("t_warmup: 0ep is no warm-up"));
  REQUIRE(warnings("8ep", "5ep").size() == 1);
  CHECK_THAT(warnings("8ep", "5ep")[0],
             Catch::StartsWith("t_warmup: 8ep is longer than the run (5ep)"));
  CHECK(alpha(cosine_after("8ep"), imagenet("5ep"), 2500) == Approx(0.5));
  CHECK(alpha(cosine_after("0ep"), imagenet("5ep"), 0) == 1);
}

TEST_CASE("a fall that is over before the rise is warned of", "[schedulers]") {
  using Catch::StartsWith;
  const auto warnings = [](const char* warmup, const char* t_max, double ratio = 1) {
    auto params = cosine_after(warmup);
    params.t_max = time(t_max);
    return ScheduledBy(params).check(hundred, ratio);
  };
  CHECK(warnings("2ep", "1dur").empty());
  CHECK(warnings("10ep", "1dur").empty());
  CHECK(warnings("2ep", "5ep").empty());
  CHECK(warnings("2ep", "21ba").empty());
  for (const char* t_max : {"1ep", "20ba", "0.1dur"}) {
    REQUIRE(warnings("2ep", t_max).size() == 1);
    CHECK_THAT(warnings("2ep", t_max)[0],
               StartsWith("t_max: " + time(t_max).str() + " is not after the end of t_warmup"));
  }
  REQUIRE(warnings("2ep", "5ep", 0.2).size() == 1);
  CHECK_THAT(warnings("2ep", "5ep", 0.2)[0],
             StartsWith("t_max: 5ep, times scale_schedule_ratio, is not after"));
  CHECK_THAT(warnings("20ep", "5ep").at(0), StartsWith("t_warmup: 20ep is longer than the run"));

  Triangular triangle;
  triangle.t_peak = time("3ep"), triangle.t_max = time("2ep");
  CHECK_THAT(ScheduledBy(triangle).check(hundred, 1).at(0), StartsWith("t_max: 2ep"));
  triangle.t_peak = time("0ep");
  CHECK(ScheduledBy(triangle).check(hundred, 1).empty());
  MultiStepWithWarmup drops;
  drops.t_warmup = time("2ep"), drops.milestones = {time("1ep"), time("8ep")};
  REQUIRE(ScheduledBy(drops).check(hundred, 1).size() == 1);
  CHECK_THAT(ScheduledBy(drops).check(hundred, 1)[0], StartsWith("milestones: 1ep"));
}

TEST_CASE("a run is shortened by whole units", "[schedulers]") {
  CHECK(scale_duration(time("90ep"), 0.36) == time("32ep"));
  CHECK(scale_duration(time("100ep"), 0.29) == time("29ep"));
  CHECK(scale_duration(time("30sec"), 0.25) == time("7.5sec"));
  CHECK_THROWS_WITH(scale_duration(time("2ep"), 0.3), Catch::Contains("2ep"));
}

TEST_CASE("all optimizers and schedulers are registered", "[schedulers]") {
  Registry registry;
  add_builtin_core(registry);
  CHECK(registry.optimizers.names() == std::vector<std::string>{"adam", "adamw", "decoupled_adamw",
                                                                "decoupled_sgdw", "lamb", "lars",
                                                                "muon", "radam", "rmsprop", "sgd"});
  CHECK(registry.schedulers.names().size() == 14);

  const auto problems_of = [&](const char* name,
                               std::vector<std::pair<std::string, std::string>> given) {
    Value map = Value::map();
    for (const auto& [key, text] : given) map.set(key, Value::scalar(text));
    Problems problems;
    const auto component = registry.schedulers.find(name);
    read_fields(map, component->fields(), name, problems);
    return problems.size();
  };
  CHECK(problems_of("cosine_decay_with_warmup", {{"t_warmup", "8ep"}, {"interval", "epoch"}}) == 0);
  CHECK(problems_of("cosine_decay_with_warmup", {}) == 1);
  CHECK(problems_of("cosine_decay", {{"interval", "batch"}}) == 1);
  CHECK(problems_of("step", {{"step_size", "0ep"}}) == 1);
  CHECK(problems_of("step", {{"step_size", "1ep"}, {"gamma", "0"}}) == 1);
  CHECK(problems_of("cosine_warmrestart", {{"t_mult", "0.5"}}) == 1);
}

}  // namespace composer::schedulers_test
