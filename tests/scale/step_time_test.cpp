// The formulas against what can be worked out by hand.
#include "scale/step_time.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "scale/plan.h"

namespace composer::step_time_test {

namespace {

constexpr Link fast{100e9, 2e-6}, slow{10e9, 20e-6};

/// Two equal operations of a million weights each.
ImageWork two_operations() { return {{8, 8}, 1e9, 3e9, 1e6, {{1e9, 1'000'000}, {1e9, 1'000'000}}}; }

}  // namespace

TEST_CASE("a ring sends every byte twice but for its own part", "[scale]") {
  CHECK(ring_seconds(8e9, 8, fast) == Approx(14 * (2e-6 + 0.01)));
  CHECK(ring_seconds(8e9, 1, fast) == 0);
  CHECK(bytes_inside(8e9, {8, 8, fast, slow}) == Approx(14e9));
}

TEST_CASE("a tree has few latencies, and a ring the shorter way for bytes", "[scale]") {
  CHECK(tree_seconds(1e9, 2, slow) == Approx(2 * 20e-6 + 0.2));
  CHECK(tree_seconds(1e9, 1000, slow) == Approx(2 * 9 * 20e-6 + 0.2));
  CHECK(tree_seconds(1e6, 1000, slow) < ring_seconds(1e6, 1000, slow));
  CHECK(ring_seconds(1e9, 4, slow) < tree_seconds(1e9, 4, slow));
}

TEST_CASE("several machines sum parts of their own sums", "[scale]") {
  const Cluster one{8, 8, fast, slow}, two{16, 8, fast, slow};
  CHECK(all_reduce_seconds(8e8, one) == Approx(ring_seconds(8e8, 8, fast)));
  CHECK(all_reduce_seconds(8e8, two) ==
        Approx(ring_seconds(8e8, 8, fast) + ring_seconds(1e8, 2, slow)));
  CHECK(bytes_between(8e8, one) == 0);
  CHECK(bytes_between(8e8, two) == Approx(1e8));
  CHECK(all_reduce_seconds(8e8, {1, 8, fast, slow}) == 0);
}

TEST_CASE("machines are whole", "[scale]") {
  const auto& gpu = find_gpu("--gpu", "h200");
  const auto& network = find_network("--network", "400g");
  CHECK(cluster_of("--gpus", 4, gpu, network, 8).machines() == 1);
  CHECK(cluster_of("--gpus", 24, gpu, network, 8).machines() == 3);
  CHECK(cluster_of("--gpus", 16, gpu, network, 2).between.bytes_per_s ==
        Approx(network.card.bytes_per_s / 4));
  try {
    cluster_of("--gpus", 12, gpu, network, 8);
    FAIL();
  } catch (const UserError& error) {
    CHECK(std::string(error.what()) ==
          "--gpus: 12 GPUs do not fill machines of 8; give a multiple, for instance 16");
  }
}

TEST_CASE("names that are not known list those that are", "[scale]") {
  CHECK(find_gpu("--gpu", "H200").name == "h200");
  CHECK_THROWS_WITH(find_gpu("--gpu", "h300"), Catch::Contains("--gpu: no GPU 'h300'") &&
                                                   Catch::Contains("h200") &&
                                                   Catch::Contains("v100"));
  CHECK_THROWS_WITH(find_network("--network", "77g"),
                    Catch::Contains("--network: no network '77g'") && Catch::Contains("400g"));
}

TEST_CASE("every GPU and network says where its figures are from", "[scale]") {
  for (const auto& gpu : known_gpus()) {
    CHECK_FALSE(gpu.source.empty());
    CHECK_FALSE(gpu.inside.source.empty());
    CHECK(gpu.inside.bytes_per_s > 0);
    if (gpu.driver.empty()) continue;
    for (const auto kernels : {Kernels::pytorch, Kernels::mlperf}) {
      const auto rate = sustained_rate(gpu, Precision::amp_fp16, kernels);
      INFO(gpu.name << ' ' << rate.flops_per_s);
      CHECK_FALSE(rate.source.empty());
      CHECK(rate.flops_per_s > 1e12);
      CHECK(rate.flops_per_s < 300e12);
      CHECK(sustained_rate(gpu, Precision::fp32, kernels).flops_per_s < rate.flops_per_s);
    }
  }
  for (const auto& network : known_networks()) CHECK_FALSE(network.card.source.empty());
  CHECK_THROWS_AS(sustained_rate(find_gpu("", "v100"), Precision::tf32, Kernels::pytorch),
                  UserError);
  for (const char* gpu : {"v100", "t4"})
    CHECK_THROWS_WITH(
        sustained_rate(find_gpu("", gpu), Precision::amp_bf16, Kernels::pytorch),
        Catch::Contains("precision: " + std::string(gpu) + " has no amp_bf16 arithmetic"));
  CHECK_THROWS_WITH(sustained_rate(find_gpu("", "cpu"), Precision::fp32, Kernels::pytorch),
                    Catch::Contains("--from"));
}

TEST_CASE("a GPU without figures has the share of its family's, or of its peak's neighbour",
          "[scale]") {
  const auto source = [](const char* gpu, Precision precision, Kernels kernels) {
    return sustained_rate(find_gpu("", gpu), precision, kernels).source;
  };
  const auto fp16 = Precision::amp_fp16;
  CHECK_THAT(source("h100_pcie", fp16, Kernels::mlperf), Catch::Contains("that the h100 reaches"));
  CHECK_THAT(source("t4", fp16, Kernels::pytorch), Catch::Contains("that the v100 reaches"));
  CHECK_THAT(source("v100", fp16, Kernels::mlperf), Catch::Contains("that the a100 reaches"));
  CHECK_THAT(source("h200", Precision::fp32, Kernels::mlperf),
             Catch::Contains("that the v100 reaches"));
}

TEST_CASE("a pass takes its arithmetic or its memory, and the start of its kernels", "[scale]") {
  const auto work = two_operations();
  StepOptions options{.flops_per_s = 1e12, .memory_bytes_per_s = 1e12};
  const double start = 2 * kernel_seconds;
  auto parts = step_parts(work, 10, options);
  CHECK(parts.forward == Approx(0.01 + start));
  CHECK(parts.backward == Approx(0.02 + 2 * start));
  CHECK(parts.bytes() == 8e6);
  options.microbatches = 3;
  CHECK(step_parts(work, 10, options).forward == Approx(0.01 + 3 * start));
  options.microbatches = 1;
  options.memory_bytes_per_s = 4e6 * memory_passes / 6e-3;  // twice as long as the arithmetic
  CHECK(step_parts(work, 10, options).forward == Approx(0.02 + start));
  options.value_bytes = 2;
  CHECK(step_parts(work, 10, options).forward == Approx(0.01 + start));
}

TEST_CASE("buckets fill from the last layer on, the first with 1 MiB", "[scale]") {
  const auto work = two_operations();
  StepOptions options{.flops_per_s = 1e12, .memory_bytes_per_s = 1e12};
  const auto buckets = buckets_of(work, 10, options);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].bytes == 4e6);
  CHECK(buckets[0].ready == Approx(0.5));
  CHECK(buckets[1].ready == 1);
  options.gradient_bytes = 2;
  options.bucket_bytes = 1e9;
  CHECK(buckets_of(work, 10, options)[0].bytes == 2e6);
  auto small = work;  // 1.2 MB as they are, 0.6 MB as they are sent
  small.operations = {{1e9, 300'000}, {1e9, 300'000}};
  CHECK(buckets_of(small, 10, options).size() == 2);
  options.microbatches = 4;  // the last of them alone sends
  CHECK(buckets_of(work, 10, options)[0].ready == Approx(1 - 0.5 / 4));
  CHECK(buckets_of(work, 10, options)[1].ready == 1);
  options.microbatches = 1;
  auto frozen = work;
  frozen.operations[0].gradient_elements = 0;
  CHECK(buckets_of(frozen, 10, options).size() == 1);
}

TEST_CASE("sums hide behind the backward pass as far as they fit", "[scale]") {
  const Cluster cluster{2, 2, {1e9, 0}, {}};  // a sum of n bytes takes n / 1e9
  StepParts parts{0.1, 0.2, 0.05, {{50e6, 0.5}, {30e6, 1.0}}};
  auto time = step_time(parts, cluster);
  CHECK(time.communication == Approx(0.08));
  CHECK(time.exposed == Approx(0.03));  // the last bucket alone
  CHECK(time.hidden_fraction() == Approx(0.625));
  CHECK(time.seconds == Approx(0.38));
  time = step_time(parts, cluster, false);
  CHECK(time.exposed == Approx(0.08));
  parts.buckets[0].bytes = 150e6;  // still on its way when the next one is ready
  CHECK(step_time(parts, cluster).exposed == Approx(0.08));
  CHECK(step_time(parts, {1, 2, {1e9, 0}, {}}).communication == 0);
}

TEST_CASE("a loader that is slower than the step sets the pace", "[scale]") {
  const StepParts parts{0.1, 0.2, 0, {}};
  CHECK(step_time(parts, {}, true, 0.2).loading == 0);
  const auto time = step_time(parts, {}, true, 0.5);
  CHECK(time.seconds == Approx(0.5));
  CHECK(time.loading == Approx(0.2));
}

TEST_CASE("the slowest of many is slower", "[scale]") {
  CHECK(expected_largest(1) == 0);
  CHECK(expected_largest(8) == Approx(1.4236).epsilon(0.01));  // tables of order statistics
  CHECK(expected_largest(100) == Approx(2.5076).epsilon(0.01));
  const StepParts parts{1, 2, 0, {}};
  CHECK(step_time(parts, {8, 8, fast, slow}, true, 0, 0.1).seconds ==
        Approx(3 * 1.142).epsilon(0.01));
}

TEST_CASE("failures cost what Daly gives", "[scale]") {
  const FailureModel model{.between_failures = 86400, .checkpoint = 60, .restart = 300};
  CHECK(daly_interval(model) == Approx(3179.8).epsilon(0.001));
  const double work = 30 * 86400;
  const double best = expected_seconds(work, daly_interval(model), model);
  CHECK(best > work);
  CHECK(best < expected_seconds(work, daly_interval(model) * 2, model));
  CHECK(best < expected_seconds(work, daly_interval(model) / 2, model));
  CHECK(expected_seconds(work, 3600, {0, 60, 300}) == Approx(work + 720 * 60));
  CHECK(expected_seconds(work, 3600, {1e15, 60, 300}) == Approx(work + 720 * 60));
  CHECK(daly_interval({.between_failures = 10, .checkpoint = 60}) == 10);
  // Young's estimate of the loss, C / t + t / 2 M, where failures are rare.
  const FailureModel rare{.between_failures = 1e7, .checkpoint = 10};
  CHECK(expected_seconds(1e9, 14142, rare) / 1e9 - 1 ==
        Approx(10 / 14142.0 + 14142 / 2e7).epsilon(0.01));
}

TEST_CASE("a plan adds up", "[scale]") {
  Training training;
  training.parts = {{two_operations(), 1e5}};
  training.batch_size = 1024;
  training.precision = Precision::amp_fp16;
  training.checkpoint_bytes = 5e9;
  training.checkpoints = 2;
  training.evaluated_images = 1e5;
  training.image_bytes = 1e5;
  training.images_per_s_per_core = 1000;
  Assumptions assumptions;
  assumptions.price_per_hour = 2;
  const auto& gpu = find_gpu("", "h200");
  const auto& network = find_network("", "400g");
  const auto plan = plan_scale(training, gpu, network, 8, assumptions, "--gpus");
  CHECK(plan.images_per_gpu == 128);
  CHECK(plan.images_per_s == Approx(1024 / plan.step.seconds));
  CHECK(plan.training_seconds == Approx(1e5 * plan.step.seconds));
  CHECK(plan.storage_bytes_per_s == Approx(plan.images_per_s * 1e5));
  CHECK(plan.loader_cores_per_gpu == Approx(plan.images_per_s / 8 / 1000));
  CHECK(plan.cost == Approx(plan.seconds() / 3600 * 8 * 2));
  CHECK(plan.write_seconds == Approx(5));
  CHECK(plan.stall_seconds == Approx(0.1));
  CHECK(plan.checkpoint_seconds == Approx(0.2));
  CHECK(plan.failures_per_day == Approx(8 * 24 / 50000.0));
  CHECK(plan.machine_bytes_per_s == 0);

  assumptions.save_async = false;
  CHECK(plan_scale(training, gpu, network, 8, assumptions, "").stall_seconds == Approx(5.1));
  assumptions.cores_per_gpu = 1;
  const auto starved = plan_scale(training, gpu, network, 8, assumptions, "");
  CHECK(starved.images_per_s == Approx(8000));
  CHECK(starved.loader_cores_per_gpu == Approx(plan.loader_cores_per_gpu));
  assumptions.mfu = 0.1;
  assumptions.cores_per_gpu.reset();
  CHECK(plan_scale(training, gpu, network, 1, assumptions, "").step.seconds ==
        Approx(1024 * 3e9 / 98.94e12));
  CHECK_THROWS_WITH(plan_scale(training, gpu, network, 2048, assumptions, "--gpus"),
                    Catch::Contains("--gpus: 2048") && Catch::Contains("--batch_per_gpu"));
}

TEST_CASE("a plan counts the largest images, and evaluations at their own size", "[scale]") {
  auto large = two_operations();
  large.flops_forward *= 4, large.flops_step *= 4, large.activation_values *= 4;
  Training training;
  training.parts = {{two_operations(), 100}, {large, 1}};
  training.batch_size = 64;
  training.evaluated_images = 1000;
  const auto& gpu = find_gpu("", "h200");
  const auto& network = find_network("", "400g");
  const auto plan = [&] { return plan_scale(training, gpu, network, 8, {}, "--gpus"); };
  CHECK(plan().memory.activations == 4e6 * 8 * 4);
  const double at_largest = plan().evaluation_seconds;
  training.evaluated = two_operations();
  const double at_its_own = plan().evaluation_seconds;
  CHECK(at_its_own < at_largest);
  training.views = 2;
  CHECK(plan().evaluation_seconds == Approx(2 * at_its_own));
  training.microbatches = 64;  // of the eight images that a GPU has
  const auto single = plan();
  training.microbatches = 8;
  CHECK(single.step.seconds == plan().step.seconds);
  CHECK(single.memory.activations == 4e6 * 4);
}

TEST_CASE("checkpoints are written one after another", "[scale]") {
  Training training;
  training.parts = {{two_operations(), 100}};
  training.batch_size = 1024;
  training.checkpoint_bytes = 5e9;
  training.checkpoints = 1;
  const auto plan = [&](const Assumptions& assumptions) {
    return plan_scale(training, find_gpu("", "h200"), find_network("", "400g"), 8, assumptions, "");
  };
  const double work = plan({}).training_seconds;
  training.checkpoints = 100;
  CHECK(plan({}).stall_seconds == Approx(0.1 + 5 - work / 100));
  training.checkpoints = 0;
  CHECK(plan({}).stall_seconds == Approx(0.1));
}

TEST_CASE("a run of any length is simulated in a while, or not at all", "[scale]") {
  Training training;
  training.parts = {{two_operations(), 1e9}};
  training.batch_size = 1 << 17;
  training.checkpoint_bytes = 1e6;
  training.checkpoints = 1e9;
  Assumptions assumptions;
  assumptions.simulated_steps = 1;
  assumptions.gpu_hours_per_failure = 1;  // often enough for some to be among those simulated
  const auto& gpu = find_gpu("", "h200");
  const auto& network = find_network("", "400g");
  const auto many = plan_scale(training, gpu, network, 8, assumptions, "");
  CHECK(many.simulated);
  CHECK(many.simulated_failure_seconds > many.failure_seconds / 10);
  CHECK(many.simulated_failure_seconds < many.failure_seconds * 10);
  assumptions.simulated_steps = 100000;
  assumptions.gpu_hours_per_failure = 0;
  CHECK_FALSE(plan_scale(training, gpu, network, 1 << 17, assumptions, "").simulated);
}

TEST_CASE("what makes a run endless is named", "[scale]") {
  Training training;
  training.parts = {{two_operations(), 1e6}};
  training.batch_size = 1024;
  Assumptions assumptions;
  const auto& gpu = find_gpu("", "h200");
  const auto& network = find_network("", "400g");
  const auto plan = [&] { return plan_scale(training, gpu, network, 8, assumptions, ""); };
  assumptions.restart_seconds = 1e9;
  CHECK_THROWS_WITH(plan(), Catch::StartsWith("--restart_seconds: of 8 GPUs one fails every "
                                              "2.25e+07 s, and a restart takes 1e+09 s"));
  assumptions.restart_seconds = 0;
  assumptions.gpu_hours_per_failure = 0.01;
  CHECK_THROWS_WITH(plan(), Catch::StartsWith("--gpu_hours_per_failure: of 8 GPUs one fails every "
                                              "4.5 s, and nothing is saved on the way"));
  training.checkpoints = 2;
  CHECK_THROWS_WITH(plan(), Catch::Contains("a shorter --save_interval"));
}

TEST_CASE("a measured step scales with its share of the batch", "[scale]") {
  Training training;
  training.parts = {{two_operations(), 10}};
  training.batch_size = 64;
  training.measured = MeasuredStep{64, 0.1, 0.2, 0.01, 0, "a run"};
  const auto& cpu = find_gpu("", "cpu");
  const auto& network = find_network("", "10g");
  CHECK(plan_scale(training, cpu, network, 1, {}, "").step.seconds == Approx(0.31));
  const auto two = plan_scale(training, cpu, network, 2, {}, "");
  CHECK(two.step.compute == Approx(0.16));
  CHECK(two.bytes_per_step == 8e6);
  training.measured->loading = 0.02;  // in the process itself, image after image
  CHECK(plan_scale(training, cpu, network, 2, {}, "").step.compute == Approx(0.17));
}

}  // namespace composer::step_time_test
