#include "base/time.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace composer::time_test {

namespace {

Time time(const char* text) { return Time::parse(text).value(); }

}  // namespace

TEST_CASE("times parse", "[time]") {
  const auto [text, value, unit] = GENERATE(table<const char*, double, TimeUnit>({
      {"90ep", 90, TimeUnit::epoch},
      {"0ep", 0, TimeUnit::epoch},
      {"16EP", 16, TimeUnit::epoch},
      {"90", 90, TimeUnit::epoch},
      {"1e3", 1000, TimeUnit::epoch},
      {"5.0ep", 5, TimeUnit::epoch},
      {"1e3ba", 1000, TimeUnit::batch},
      {"1E3Ba", 1000, TimeUnit::batch},
      {"1.5e1ba", 15, TimeUnit::batch},
      {"20e-1ba", 2, TimeUnit::batch},
      {"512sp", 512, TimeUnit::sample},
      {"30sec", 30, TimeUnit::second},
      {"0.25sec", 0.25, TimeUnit::second},
      {"0.5dur", 0.5, TimeUnit::duration},
      {".5dur", 0.5, TimeUnit::duration},
      {"1.dur", 1, TimeUnit::duration},
      {"1e-1DUR", 0.1, TimeUnit::duration},
  }));
  CAPTURE(text);
  CHECK(Time::parse(text) == Time{value, unit});
}

TEST_CASE("what is no time says why", "[time]") {
  const auto [text, reason] = GENERATE(table<const char*, const char*>({
      {"", "empty"},
      {"ep", "start with a number"},
      {"dur", "start with a number"},
      {".ep", "start with a number"},
      {" 5ep", "start with a number"},
      {"+5ep", "start with a number"},
      {"nan", "start with a number"},
      {"infep", "start with a number"},
      {"ninety epochs", "start with a number"},
      {"-1ep", "negative"},
      {"-0.5dur", "negative"},
      {"5ep ", "unknown unit"},
      {"5 ep", "unknown unit"},
      {"1ep5ba", "unknown unit"},
      {"5tok", "unknown unit"},
      {"5iter", "unknown unit"},
      {"5epochs", "unknown unit"},
      {"5s", "unknown unit"},
      {"1e+3ba", "unknown unit"},
      {"1e", "unknown unit"},
      {"1.2.3ep", "unknown unit"},
      {"0x10ep", "unknown unit"},
      {"1,000ba", "unknown unit"},
      {"1.5ep", "whole number"},
      {"0.5ba", "whole number"},
      {"1e-1sp", "whole number"},
      {"0.5", "unit"},
      {"1e400dur", "too large"},
      {"1e30ep", "too large"},
  }));
  CAPTURE(text);
  std::string problem;
  CHECK_FALSE(Time::parse(text, &problem));
  CHECK_THAT(problem, Catch::Contains(reason));
}

TEST_CASE("times are written so that they read back", "[time]") {
  for (const char* text : {"90ep", "1000ba", "512sp", "30sec", "0.5dur", "0.136dur", "0.1sec"})
    CHECK(time(text).str() == text);
  for (const Time& odd : {Time{1e-20, TimeUnit::duration}, Time{1e21, TimeUnit::second},
                          Time{1.0 / 3, TimeUnit::duration}, Time{1e15, TimeUnit::batch}})
    CHECK(Time::parse(odd.str()) == odd);
}

TEST_CASE("times convert to batches", "[time]") {
  // 1000 samples in batches of 64: 15 full ones and one of 40.
  const RunLength run_length{16, 1000, 64, time("4ep")};
  CHECK(run_length.batches(time("3ep")) == 48);
  CHECK(run_length.batches(time("7ba")) == 7);
  CHECK(run_length.batches(time("64sp")) == 1);
  CHECK(run_length.batches(time("960sp")) == 15);
  CHECK(run_length.batches(time("980sp")) == 15.5);
  CHECK(run_length.batches(time("1000sp")) == 16);
  CHECK(run_length.batches(time("2032sp")) == 32.5);
  CHECK(run_length.batches(time("0.25dur")) == 16);
  CHECK_THROWS_WITH(run_length.batches(time("9sec")), Catch::Contains("9sec"));
  CHECK(run_length.total_batches() == 64);
  CHECK(RunLength{16, 1000, 64, time("2001sp")}.total_batches() == 33);

  const RunLength timed{16, 1000, 64, time("30sec")};
  CHECK_FALSE(timed.total_batches());
  CHECK_THROWS_AS(timed.batches(time("0.5dur")), UserError);
  CHECK_THROWS_AS((RunLength{16, 1000, 64, time("1dur")}.total_batches()), UserError);
}

TEST_CASE("a run's elapsed share moves every batch and ends with the run", "[time]") {
  const RunLength run_length{16, 1000, 64, time("2ep")};
  Timestamp now;
  double before = -1;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int batch = 0; batch < 16; ++batch) {
      CHECK(run_length.elapsed(now) > before);
      CHECK_FALSE(run_length.finished(now));
      before = run_length.elapsed(now);
      now.next_batch(batch == 15 ? 40 : 64);
    }
    now.next_epoch();
  }
  CHECK(run_length.elapsed(now) == 1);
  CHECK(run_length.finished(now));
  CHECK(now.sample == 2000);

  now = {};
  now.seconds = 7.5;
  const RunLength timed{16, 1000, 64, time("30sec")};
  CHECK(timed.elapsed(now) == 0.25);
  CHECK_FALSE(timed.finished(now));
  now.seconds = 31;
  CHECK(timed.elapsed(now) == 1);
  CHECK(timed.finished(now));

  now.sample = 99;
  CHECK_FALSE(RunLength{16, 1000, 64, time("100sp")}.finished(now));
  now.sample = 128;
  CHECK(RunLength{16, 1000, 64, time("100sp")}.finished(now));
  CHECK(RunLength{16, 1000, 64, time("0ba")}.elapsed({}) == 1);
}

TEST_CASE("intervals are due at the right batches and epochs", "[time]") {
  const RunLength run_length{16, 1000, 64, time("4ep")};
  std::vector<int64_t> batches, samples, epochs, shares;
  Timestamp now;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (int batch = 0; batch < 16; ++batch) {
      now.next_batch(batch == 15 ? 40 : 64);
      if (run_length.due(time("10ba"), now, false)) batches.push_back(now.batch);
      if (run_length.due(time("500sp"), now, false)) samples.push_back(now.sample);
      CHECK_FALSE(run_length.due(time("1ep"), now, false));
      CHECK_FALSE(run_length.due(time("0ba"), now, false));
      if (run_length.due(time("0.1dur"), now, false)) shares.push_back(now.batch);
      CHECK_FALSE(run_length.due(time("0dur"), now, false));
      CHECK_FALSE(run_length.due(time("1sec"), now, false));
    }
    now.next_epoch();
    CHECK_FALSE(run_length.due(time("1ba"), now, true));
    CHECK_FALSE(run_length.due(time("1sp"), now, true));
    CHECK_FALSE(run_length.due(time("0.25dur"), now, true));
    if (run_length.due(time("2ep"), now, true)) epochs.push_back(now.epoch);
  }
  CHECK(batches == std::vector<int64_t>{10, 20, 30, 40, 50, 60});
  CHECK(samples == std::vector<int64_t>{512, 1000, 1512, 2000, 2512, 3000, 3512, 4000});
  CHECK(epochs == std::vector<int64_t>{2, 4});
  CHECK(shares == std::vector<int64_t>{7, 13, 20, 26, 32, 39, 45, 52, 58, 64});  // of 6.4
}

TEST_CASE("a run that once had other epochs is where its epochs are", "[time]") {
  RunLength run_length{10, 1000, 100, time("4ep")};
  const Timestamp now{.epoch = 2, .batch = 43, .batch_in_epoch = 3};  // 20 batches an epoch before
  run_length.take_up(now);
  CHECK(run_length.position(now) == 23);
  CHECK(run_length.elapsed(now) == Approx(23.0 / 40));
  const auto again = run_length.at_batch(43);
  CHECK(again.epoch == 2);
  CHECK(again.batch_in_epoch == 3);
  CHECK(run_length.due(time("0.3dur"), {.epoch = 2, .batch = 44, .batch_in_epoch = 4}, false));
  CHECK_FALSE(
      run_length.due(time("0.3dur"), {.epoch = 1, .batch = 36, .batch_in_epoch = 6}, false));

  run_length.max_duration = time("60ba");
  run_length.take_up(now);
  CHECK(run_length.elapsed(now) == Approx(43.0 / 60));
  run_length.max_duration = time("6000sp");  // 4300 were trained on
  run_length.take_up({.epoch = 2, .batch = 43, .sample = 4300, .batch_in_epoch = 3});
  CHECK(run_length.elapsed(now) == Approx(43.0 / 60));
  CHECK(run_length.at_batch(43).epoch == 2);
}

TEST_CASE("shares of a run that ends early are those of the planned one", "[time]") {
  RunLength run_length{16, 1000, 64, time("4ep")};
  run_length.planned = run_length.max_duration;
  run_length.max_duration = time("20ba");
  CHECK(run_length.due(time("0.5dur"), {.batch = 32}, false));
  CHECK_FALSE(run_length.due(time("0.5dur"), {.batch = 10}, false));
}

TEST_CASE("seconds count from where it was last over", "[time]") {
  const RunLength run_length{16, 1000, 64, time("4ep")};
  Repetition repetition(time("30sec"));
  Timestamp now{.batch = 1, .seconds = 29.9};
  CHECK_FALSE(repetition.due(run_length, now, false));
  now.seconds = 30;
  CHECK(repetition.due(run_length, now, false));
  CHECK_FALSE(repetition.due(run_length, now, true));  // it was after the epoch's last batch
  repetition.done_at(41);
  now.seconds = 70.5;
  CHECK_FALSE(repetition.due(run_length, now, false));
  now.seconds = 71;
  CHECK(repetition.due(run_length, now, false));
  CHECK_FALSE(Repetition(time("0sec")).due(run_length, now, false));

  const RunLength timed{16, 1000, 64, time("100sec")};
  now = {.batch = 5, .seconds = 24};
  CHECK_FALSE(Repetition(time("0.25dur")).due(timed, now, false));
  now.seconds = 25;
  CHECK(Repetition(time("0.25dur")).due(timed, now, false));
  now.batch = 10;
  CHECK(Repetition(time("5ba")).due(timed, now, false));
  CHECK(check_repetition("eval_interval", time("1dur")).empty());
  CHECK(check_repetition("eval_interval", time("1.5dur")) ==
        "eval_interval: must be at most 1dur, the whole run, not 1.5dur");
}

}  // namespace composer::time_test
