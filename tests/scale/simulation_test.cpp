// The simulation against the formulas where both apply, and what only it shows.
#include "scale/simulation.h"

#include <catch2/catch.hpp>

#include "scale/step_time.h"

namespace composer::simulation_test {

namespace {

constexpr Link inside{360e9, 3.4e-6}, between{45e9, 14e-6};

const StepParts step{0.010, 0.020, 0.002, {{1e6, 0.1}, {26e6, 0.5}, {26e6, 0.7}, {50e6, 1}}};

SimulatedJob job_of(const Cluster& cluster) { return {.step = step, .cluster = cluster}; }

}  // namespace

TEST_CASE("without noise the simulation takes the formulas' time", "[scale]") {
  for (const int64_t gpus : {1, 2, 3, 8, 16, 24, 64, 256, 1024})
    for (const bool overlap : {true, false}) {
      // 3 GPUs share a machine; slow networks make trees of what fast ones make rings.
      for (const double slower : {1.0, 20.0}) {
        auto job = job_of({gpus, 8, inside, {between.bytes_per_s / slower, between.latency}});
        job.overlap = overlap;
        const auto expected = step_time(step, job.cluster, overlap);
        const auto run = simulate(job, gpus > 100 ? 3 : 10, 1);
        INFO(gpus << " GPUs, overlap " << overlap << ", slower " << slower);
        CHECK(run.seconds_per_step == Approx(expected.seconds).epsilon(1e-9));
        CHECK(run.exposed == Approx(expected.exposed).margin(1e-9));
        CHECK(run.waited_for_data == 0);
      }
    }
}

TEST_CASE("a loader that cannot keep up is waited for", "[scale]") {
  auto job = job_of({8, 8, inside, between});
  job.load_seconds = 0.02;
  const auto expected = step_time(step, job.cluster);
  CHECK(simulate(job, 50, 1).seconds_per_step == Approx(expected.seconds));
  job.load_seconds = 0.05;
  const auto slow = simulate(job, 50, 1);
  CHECK(slow.seconds_per_step == Approx(step_time(step, job.cluster, true, 0.05).seconds));
  CHECK(slow.waited_for_data == Approx(0.05 - expected.seconds).epsilon(0.1));
}

TEST_CASE("a straggler sets the pace of all, and the others wait", "[scale]") {
  auto job = job_of({16, 8, inside, between});
  const auto plain = simulate(job, 10, 1);
  job.slower = {1, 1, 1.5};
  const auto run = simulate(job, 10, 1);
  auto slow = step;
  slow.forward *= 1.5, slow.backward *= 1.5, slow.rest *= 1.5;
  CHECK(run.seconds_per_step == Approx(step_time(slow, job.cluster).seconds).epsilon(0.05));
  CHECK(run.exposed > plain.exposed + 0.01);
}

TEST_CASE("a slow network of one machine slows the sums of all", "[scale]") {
  auto job = job_of({16, 8, inside, between});
  job.overlap = false;
  const auto plain = simulate(job, 5, 1);
  job.slower_network = {1, 10};
  CHECK(simulate(job, 5, 1).seconds_per_step > plain.seconds_per_step * 1.02);
  job.cluster.between.bytes_per_s = 45e9 / 20;  // trees too
  job.cluster.gpus = 1024;
  const auto tree = simulate(job, 2, 1);
  job.slower_network.clear();
  CHECK(tree.seconds_per_step > simulate(job, 2, 1).seconds_per_step * 1.02);
}

TEST_CASE("the spread of times costs what the expected slowest does", "[scale]") {
  for (const int64_t gpus : {8, 64}) {
    auto job = job_of({gpus, 8, inside, between});
    job.spread = 0.05;
    const auto run = simulate(job, 400, 3);
    const auto expected = step_time(step, job.cluster, true, 0, 0.05);
    INFO(gpus);
    CHECK(run.seconds_per_step == Approx(expected.seconds).epsilon(0.02));
  }
}

TEST_CASE("a seed gives the same run again, another one another", "[scale]") {
  auto job = job_of({16, 8, inside, between});
  job.spread = 0.1;
  job.failures = {.between_failures = 1, .checkpoint = 0.01, .restart = 0.1};
  job.checkpoint_every = 5;
  const auto a = simulate(job, 100, 7), b = simulate(job, 100, 7), c = simulate(job, 100, 8);
  CHECK(a.seconds == b.seconds);
  CHECK(a.failures == b.failures);
  CHECK(a.seconds != c.seconds);
}

TEST_CASE("failures and checkpoints cost what Daly's formula expects", "[scale]") {
  const StepParts second{0.4, 0.6, 0, {}};
  SimulatedJob job{.step = second, .cluster = {}};
  job.failures = {.between_failures = 500, .checkpoint = 5, .restart = 20};
  for (const int64_t every : {25, 70, 300}) {
    job.checkpoint_every = every;
    double total = 0;
    int64_t failures = 0, again = 0;
    constexpr int seeds = 5;
    constexpr int64_t steps = 60000;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const auto run = simulate(job, steps, seed);
      total += run.seconds / seeds;
      failures += run.failures, again += run.steps_done_again;
    }
    const double expected =
        expected_seconds(static_cast<double>(steps), static_cast<double>(every), job.failures);
    INFO(every << ": " << total << " against " << expected);
    CHECK(total == Approx(expected).epsilon(0.03));
    CHECK(failures > 0);
    CHECK(again > 0);
  }
  job.failures.between_failures = 0;
  job.checkpoint_every = 10;
  CHECK(simulate(job, 100, 1).seconds == Approx(100 + 9 * 5));
}

}  // namespace composer::simulation_test
