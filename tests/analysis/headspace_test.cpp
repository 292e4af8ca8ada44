// What limits a run, from its rates.
#include "analysis/headspace.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace composer::headspace_test {

using Catch::Contains;

namespace {

/// Of a run that its step limits by far.
Headspace balanced() {
  Headspace rates;
  rates.as_it_is = 100, rates.loader_free = 104, rates.step_free = 900;
  rates.decoding_free = 102, rates.wait_fraction = 0.01;
  return rates;
}

bool advises(const Verdict& verdict, const std::string& words) {
  return std::ranges::any_of(
      verdict.advice, [&](const auto& line) { return line.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("the step limits a run that a free loader would hardly speed up",
          "[analysis][headspace]") {
  const auto verdict = judge(balanced(), {});
  CHECK(verdict.limit == Limit::step);
  CHECK(verdict.gain == Approx(9));
  CHECK(verdict.text ==
        "the training step limits this run: loading that costs nothing would give 4 % more images "
        "a second");
  CHECK(advises(verdict, "--precision amp"));
  CHECK(advises(verdict, "channels_last"));
  const auto tuned = judge(balanced(), {.has_amp = true, .channels_last = true});
  CHECK_FALSE(advises(tuned, "--precision amp"));
  CHECK_FALSE(advises(tuned, "channels_last"));
}

TEST_CASE("a loader that does nearly nothing does not limit, whatever slowed a rate meanwhile",
          "[analysis][headspace]") {
  auto rates = balanced();
  rates.loader_free = 180, rates.step_free = 9000, rates.wait_fraction = 0.03;
  CHECK(judge(rates, {}).limit == Limit::step);
  rates.wait_fraction = 0.3;
  CHECK(judge(rates, {}).limit != Limit::step);
  CHECK(judge(rates, {}).gain == Approx(1 / (1 - 0.3 - 1.0 / 90)));
}

TEST_CASE("rates that contradict each other are called so", "[analysis][headspace]") {
  CHECK_THAT(judge(balanced(), {}).text, !Contains("contradict"));
  Headspace rates;
  rates.as_it_is = 180, rates.wait_fraction = 0.146;
  rates.loader_free = 160, rates.step_free = 5000;
  CHECK_THAT(judge(rates, {}).text, Contains("contradict each other"));
}

TEST_CASE("decoding limits where decoded samples give what a free loader gives",
          "[analysis][headspace]") {
  auto rates = balanced();
  rates.loader_free = 200, rates.decoding_free = 180, rates.step_free = 110;
  const auto verdict = judge(rates, {.num_workers = 2, .cores = 8});
  CHECK(verdict.limit == Limit::decoding);
  CHECK(verdict.gain == Approx(1.8));
  CHECK_THAT(verdict.text, Contains("decoding limits this run: free, it would give 80 % more"));
  CHECK(verdict.advice.front() == "--num_workers 8 (there are 8 cores)");
  CHECK(advises(verdict, "composer data write --max_resolution"));
  CHECK(advises(verdict, "composer data index"));
  CHECK_FALSE(advises(judge(rates, {.num_workers = 8, .cores = 8}), "--num_workers"));
}

TEST_CASE("the rest of the loader limits where decoding does not", "[analysis][headspace]") {
  auto rates = balanced();
  rates.loader_free = 200, rates.decoding_free = 110, rates.step_free = 105;
  const auto verdict = judge(rates, {});
  CHECK(verdict.limit == Limit::loader);
  CHECK(verdict.gain == Approx(2));
  CHECK(advises(verdict, "augmentations"));
}

TEST_CASE("the storage limits where the samples come from there, and slowly",
          "[analysis][headspace]") {
  auto rates = balanced();
  rates.loader_free = 200, rates.decoding_free = 180, rates.step_free = 300;
  rates.cold = 100, rates.bytes_of_a_sample = 1e5, rates.storage_share = 0.9;
  const auto verdict = judge(rates, {});
  CHECK(verdict.limit == Limit::storage);
  CHECK(verdict.gain == Approx(2));
  CHECK(advises(verdict, "ffcv_local_dir"));
  rates.storage_share = 0.1;  // the cache had them
  CHECK(judge(rates, {}).limit == Limit::decoding);
  rates.storage_share = 0.9, rates.cold = 290;
  CHECK(judge(rates, {}).limit == Limit::decoding);
}

TEST_CASE("the copy limits where batches on the device train faster", "[analysis][headspace]") {
  auto rates = balanced();
  rates.copy_free = 130;
  const auto verdict = judge(rates, {.on_cpu = false});
  CHECK(verdict.limit == Limit::copy);
  CHECK(verdict.gain == Approx(1.25));
  CHECK(advises(verdict, "--pin_memory true"));
  rates.copy_free = 106;
  CHECK(judge(rates, {.on_cpu = false}).limit == Limit::step);
  rates.as_it_is = 400, rates.wait_fraction = 0.8;  // the loader has it wait
  rates.loader_free = 3000, rates.copy_free = 3400, rates.step_free = 450;
  CHECK(judge(rates, {.on_cpu = false}).limit == Limit::loader);
}

}  // namespace composer::headspace_test
