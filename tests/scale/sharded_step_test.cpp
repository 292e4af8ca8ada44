// Steps of ranks that divide weights, state or images: against what can be worked out by hand, and
// the formulas against the simulation.
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/resnet.h"
#include "nn/network/cost.h"
#include "nn/network/graph.h"
#include "nn/network/layers.h"
#include "scale/plan.h"
#include "scale/step_time.h"
#include "scale/step_work.h"

namespace composer::sharded_step_test {

namespace {

using Kind = Transfer::Kind;

/// A transfer of n bytes takes n / 1e9 seconds.
constexpr double per_s = 1e9;
const Cluster two_gpus{2, 2, {per_s, 0}, {}};

/// A step through three units; gathers take 10, 50 and 300 ms, and so do sums.
StepParts three_units() {
  const auto unit = [](double forward, double backward, double bytes) {
    return UnitPass{forward, backward, {Kind::weights, bytes, 1}, {Kind::gradients, bytes, 1}};
  };
  StepParts parts{0.4, 0.8, 0.05, {}};
  parts.units = {unit(0.1, 0.2, 10e6), unit(0.2, 0.4, 50e6), unit(0.1, 0.2, 300e6)};
  return parts;
}

/// Two operations, of a million weights and of three.
Training two_units() {
  Training training;
  training.parts = {
      {{{8, 8}, 2e9, 6e9, 1e6, {{2e9, 1'000'000, 1e9, 0}, {2e9, 3'000'000, 1e9, 1}}}, 100}};
  training.batch_size = 64;
  training.weights.parameters = {{1e6, 0}, {3e6, 1}};
  training.weights.units = {{"a", 0}, {"b", 1}};
  return training;
}

ScalePlan plan_of(const Training& training, int64_t gpus, const Assumptions& assumptions = {}) {
  return plan_scale(training, find_gpu("", "h200"), find_network("", "400g"), gpus, assumptions,
                    "--gpus");
}

class Small : public Model {
 public:
  Small() {
    add<Conv2d>("conv1", Conv2dOptions{3, 8, {3, 3}, {1, 1}, {1, 1}});
    add<BatchNorm2d>("bn", 8);
    add<Conv2d>("conv2", Conv2dOptions{8, 4, {3, 3}, {1, 1}, {1, 1}});
    add<AdaptiveAvgPool2d>("pool");
    add<Linear>("fc", 4, 2);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 2; }
};

ImageWork small_work(Small& model, int64_t size, int64_t spatial_ranks, bool trains = true) {
  const auto graph = record(model, at::zeros({1, 3, size, size}));
  return work_of(graph, cost_of(graph, model), {size, size}, {}, spatial_ranks, trains);
}

void check_agree(const StepParts& parts, const Cluster& cluster, bool overlap) {
  CAPTURE(cluster.gpus, cluster.of_image, overlap);
  const auto expected = step_time(parts, cluster, overlap);
  const auto run = simulate({.step = parts, .cluster = cluster, .overlap = overlap}, 5, 1);
  CHECK(run.seconds_per_step == Approx(expected.seconds).epsilon(1e-9));
  CHECK(run.exposed == Approx(expected.exposed).margin(1e-9));
}

}  // namespace

TEST_CASE("a chain has the latency of each of its links, and the bandwidth of the slowest",
          "[scale]") {
  const Link fast{100e9, 2e-6}, slow{10e9, 20e-6};
  CHECK(chain_seconds(8e9, 1, {8, 8, fast, slow}) == Approx(7 * 2e-6 + 0.08));
  CHECK(chain_seconds(8e9, 3, {16, 8, fast, slow}) == Approx(3 * (20e-6 + 14 * 2e-6) + 0.1));
  CHECK(chain_seconds(8e9, 3, {4, 1, fast, slow}) == Approx(3 * 3 * 20e-6 + 0.8));
  CHECK(chain_seconds(8e9, 3, {1, 8, fast, slow}) == 0);
  CHECK(bytes_inside({Kind::weights, 8e9}, {8, 8, fast, slow}) == Approx(7e9));
  CHECK(bytes_between({Kind::gradients, 8e8}, {16, 8, fast, slow}) == Approx(0.5e8));
}

TEST_CASE("rows of images go between the GPUs that share them", "[scale]") {
  const Link fast{100e9, 2e-6}, slow{10e9, 20e-6};
  Cluster cluster{16, 8, fast, slow, 4};
  const Transfer rows{Kind::rows, 1e9, 3};
  CHECK(transfer_seconds(rows, cluster) == Approx(3 * 2e-6 + 0.01));
  CHECK(bytes_inside(rows, cluster) == 1e9);
  CHECK(bytes_between(rows, cluster) == 0);
  cluster.of_image = 16;  // two machines share an image
  CHECK(transfer_seconds(rows, cluster) == Approx(3 * 20e-6 + 0.1));
  CHECK(bytes_between(rows, cluster) == 1e9 / 8);  // of one GPU of eight
  CHECK(bytes_inside(rows, cluster) == 1e9);
  cluster = {4, 1, fast, slow, 2};
  CHECK(bytes_between(rows, cluster) == 1e9);
  CHECK(bytes_inside(rows, cluster) == 0);
}

TEST_CASE("fsdp gathers a unit while the one before computes, and sums one while the next does",
          "[scale]") {
  auto parts = three_units();
  // Forward: the first gather, then each unit or the gather beside it, and the last unit.
  const double forward = 0.01 + 0.1 + 0.3 + 0.1;
  // Backward: a unit, or the sum of the one before and the gather of the next; the last sum.
  const double backward = 0.2 + 0.4 + 0.2 + 0.01;
  auto time = step_time(parts, two_gpus);
  CHECK(time.seconds == Approx(forward + backward + 0.05));
  CHECK(time.compute == Approx(1.25));
  CHECK(time.exposed == Approx(0.12));
  CHECK(time.communication == Approx(3 * 0.36 - 0.3));  // the last unit is gathered once
  CHECK(time.weights == Approx(0.42));
  CHECK(forward_seconds(parts, two_gpus) == Approx(forward));

  time = step_time(parts, two_gpus, false);
  CHECK(time.seconds == Approx(1.25 + 0.78));
  parts.passes = 2;
  CHECK(step_time(parts, two_gpus).seconds == Approx(2 * (forward + backward) + 0.05));
  parts.passes = 1;
  parts.late_sums = {{Kind::gradients, 20e6}};
  parts.updated = {{Kind::weights, 30e6}};
  CHECK(step_time(parts, two_gpus).seconds == Approx(forward + backward + 0.05 + 0.05));

  parts.units[1].backward = 0.1;  // less than the sum of the last unit and the gather of the first
  CHECK(step_time(parts, two_gpus).seconds ==
        Approx(forward + backward + 0.05 + 0.05 - 0.4 + 0.31));
  parts.units[1].gather.messages = parts.units[1].sum.messages = 0;  // frozen: nothing is sent
  CHECK(step_time(parts, two_gpus).communication == Approx(0.78 + 0.05 - 3 * 0.05));
  time = step_time(parts, two_gpus, false);  // which stops for the last unit's sum all the same
  CHECK(time.seconds == Approx(time.compute + time.communication));
}

TEST_CASE("zero1 sends weights after the update, one rank after another", "[scale]") {
  StepParts parts{0.1, 0.2, 0.05, {{50e6, 1}}};
  ParameterShards shards;
  shards.all = {10e6, 2};
  shard_optimizer_state(parts, shards);
  const auto time = step_time(parts, {2, 2, {per_s, 1e-3}, {}});
  CHECK(time.weights == Approx(2 * 1e-3 + 0.04));
  CHECK(time.exposed == Approx(2 * (1e-3 + 0.025) + 0.042));
  CHECK(time.seconds == Approx(0.35 + time.exposed));
}

TEST_CASE("parameters are shared out as the optimizer does, the largest first", "[scale]") {
  const TrainedParameters weights{{{5, 0}, {4, 0}, {3, 1}, {3, {}}}, {{"a", 0}, {"b", 1}}};
  const auto two = shards_of(weights, 2), four = shards_of(weights, 4);
  CHECK(two.largest == 8);
  CHECK(two.all.elements == 15);
  CHECK(two.all.owners == 2);
  CHECK(two.units[0].elements == 9);
  CHECK(two.units[0].owners == 2);
  CHECK(two.units[1].owners == 1);
  CHECK(two.rest.elements == 3);
  CHECK(two.largest_unit() == 9);
  CHECK(four.largest == 5);
  CHECK(shards_of(weights, 100).all.owners == 4);

  ResNet::Params params;
  params.model_name = "resnet18";
  ResNet model(params);
  auto network = trained_parameters(model);
  CHECK(network.elements() == 11689512);
  CHECK(network.units.size() == 2 + 8 + 1);
  CHECK(network.units.contains("layer4.1"));
  CHECK(std::ranges::all_of(network.parameters,
                            [](const auto& one) { return one.unit.has_value(); }));
  model.freeze({"conv1.*"});
  CHECK(trained_parameters(model).elements() == 11689512 - 64 * 3 * 49);
}

TEST_CASE("operations count for the units that they run in, or between", "[scale]") {
  // A unit, an operation without weights, and a unit of two operations.
  const ImageWork work{
      {8, 8},
      5e9,
      15e9,
      0,
      {{2e9, 1'000'000, 1e9, 0}, {2e9, 0, 1e9, {}}, {4e9, 1'000'000, 2e9, 1}, {2e9, 0, 1e9, 1}}};
  const StepOptions options{.flops_per_s = 1e12, .memory_bytes_per_s = 1e12};
  ParameterShards shards;
  shards.units = {{1e6, 1}, {1e6, 2}};
  auto parts = step_parts(work, 10, options);
  const double forward = parts.forward, backward = parts.backward;
  shard_parameters(parts, work, 10, options, shards, 2);
  REQUIRE(parts.units.size() == 2);
  const double start = kernel_seconds;
  CHECK(parts.units[0].forward == Approx(0.02 + 2 * start));
  CHECK(parts.units[1].forward == Approx(0.03 + 2 * start));
  CHECK(parts.units[0].backward == Approx(0.02 + 2 * start));
  CHECK(parts.units[1].backward == Approx(0.08 + 6 * start));
  CHECK(parts.units[1].gather.bytes == 2e6);
  CHECK(parts.units[1].gather.messages == 2);
  CHECK(parts.units[1].sum.bytes == 4e6);
  CHECK(parts.buckets.empty());
  CHECK(parts.units[0].forward + parts.units[1].forward == Approx(forward));
  CHECK(parts.units[0].backward + parts.units[1].backward == Approx(backward));
}

TEST_CASE("ranks that divide images compute and send what SpatialParallel does", "[scale]") {
  Small model;
  const auto whole = small_work(model, 8, 1), half = small_work(model, 8, 2);
  const double conv1 = 2 * 8 * 64 * 27, conv2 = 2 * 4 * 64 * 72, fc = 2 * 4 * 2;
  CHECK(whole.flops_forward == conv1 + conv2 + fc);
  CHECK(half.flops_forward == (conv1 + conv2) / 2 + fc);
  CHECK(half.flops_step == (2 * conv1 + 3 * conv2) / 2 + 3 * fc);
  // The images, what norm and second convolution get, statistics, and what the last layer gets; of
  // two ranks' also the row that the second convolution takes.
  CHECK(whole.activation_values == 3 * 64 + 8 * 64 + 16 + 8 * 64 + 4);
  CHECK(half.activation_values == 3 * 64 + (8 * 64 + 16 + 8 * 64) / 2 + 4 + 8 * 8);
  CHECK(small_work(model, 7, 2).flops_forward ==
        Approx((2 * 8 * 49 * 27 + 2 * 4 * 49 * 72) * 4 / 7 + fc));

  for (const auto& operation : whole.operations) CHECK(operation.forward.messages == 0);
  const auto &first = half.operations[0], &norm = half.operations[1], &second = half.operations[2],
             &pool = half.operations[3];
  CHECK(first.forward.messages == 0);  // all have the images
  CHECK(first.backward.messages == 0);
  CHECK(norm.forward.batch_sums == 2 * 8 + 1);
  CHECK(norm.forward.messages == 1);
  CHECK(norm.backward.batch_sums == 2 * 8);
  CHECK(norm.backward.messages == 2);
  CHECK(second.forward.values == 8 * 8);  // a row
  CHECK(second.backward.values == 8 * 8);
  CHECK(pool.forward.image_sums == 4);
  CHECK(pool.backward.messages == 2);

  const auto evaluated = small_work(model, 8, 2, /*trains=*/false);
  CHECK(evaluated.operations[1].forward.messages == 0);  // by running statistics
  CHECK(evaluated.operations[2].forward.values == 8 * 8);
  CHECK(evaluated.operations[3].forward.image_sums == 4);

  model.freeze({"conv1.*", "bn.*"});
  const auto frozen = small_work(model, 8, 2);
  CHECK(frozen.operations[1].forward.messages == 0);
  CHECK(frozen.operations[2].forward.messages == 1);
  CHECK(frozen.operations[2].backward.messages == 0);
}

TEST_CASE("passes stop for rows, in each microbatch", "[scale]") {
  Small model;
  const auto work = small_work(model, 8, 2);
  StepOptions options{.flops_per_s = 1e12, .memory_bytes_per_s = 1e12};
  const Cluster cluster{2, 2, {per_s, 1e-3}, {}, 2};
  const auto time_of = [&] {
    auto parts = step_parts(work, 4, options);
    split_images(parts, work, 4, options);
    return std::pair(step_time(parts, cluster), parts);
  };
  const auto [time, parts] = time_of();
  // Of the norm, the second convolution and the pooled values, of four images.
  const double forward = 17 * 4 + 64 * 4 * 4 + 4 * 4 * 4,
               backward = 16 * 4 + 64 * 4 * 4 + 4 * 4 * 4;
  CHECK(time.rows == Approx(9e-3 + (forward + backward) / per_s));
  CHECK(time.exposed == Approx(time.communication));  // the one bucket comes last
  CHECK(forward_seconds(parts, cluster) == Approx(parts.forward + 4e-3 + forward / per_s));
  CHECK(std::ranges::is_sorted(parts.backward_rows, {}, &RowStop::at));

  options.value_bytes = 2;
  CHECK(time_of().first.rows == Approx(time.rows - 2 * 64 * 4 * 2 / per_s));
  options.value_bytes = 4;
  options.microbatches = 2;
  CHECK(time_of().first.rows == Approx(18e-3 + (forward + backward + 17 * 4 + 16 * 4) / per_s));
}

TEST_CASE("without noise the simulation takes the formulas' time where ranks divide something",
          "[scale]") {
  const Link inside{360e9, 3.4e-6}, between{45e9, 14e-6};
  auto units = three_units();
  units.passes = 2;
  units.late_sums = {{Kind::gradients, 20e6, 3}};
  units.updated = {{Kind::weights, 30e6, 3}};
  StepParts state{0.010, 0.020, 0.002, {{1e6, 0.1}, {26e6, 0.5}, {50e6, 1}}};
  state.updated = {{Kind::weights, 77e6, 8}};
  auto images = state;
  images.forward_rows = {{{Kind::rows, 3e6, 1}, 0}, {{Kind::rows, 1e3, 2}, 0.4}};
  images.backward_rows = {{{Kind::rows, 1e3, 4}, 0.3}, {{Kind::rows, 3e6, 1}, 0.5}};
  for (const int64_t gpus : {2, 8, 16, 64})
    for (const bool overlap : {true, false}) {
      const Cluster cluster{gpus, 8, inside, between};
      check_agree(units, cluster, overlap);
      check_agree(state, cluster, overlap);
      for (const int64_t of_image : {2, 16}) {
        if (gpus % of_image != 0) continue;
        auto shared = cluster;
        shared.of_image = of_image;
        check_agree(images, shared, overlap);
      }
    }
}

TEST_CASE("who waits for a slow GPU are those that send it something", "[scale]") {
  const Link inside{360e9, 3.4e-6};
  StepParts parts{0.01, 0.02, 0, {}};
  parts.forward_rows = {{{Kind::rows, 1e6, 1}, 0.9}};
  SimulatedJob job{.step = parts, .cluster = {4, 8, inside, {}, 2}, .slower = {2}};
  // Its neighbour waits for its rows, the two of another image wait for nobody.
  CHECK(simulate(job, 1, 1).exposed ==
        Approx((0.009 + 4 * transfer_seconds(parts.forward_rows[0].transfer, job.cluster)) / 4));
  job.step = three_units();
  job.slower_network = {10};
  const auto plain = step_time(job.step, {16, 8, inside, {45e9, 14e-6}});
  job.cluster = {16, 8, inside, {45e9, 14e-6}};
  job.slower.clear();
  CHECK(simulate(job, 2, 1).seconds_per_step > plain.seconds);
}

TEST_CASE("on one GPU nothing is divided", "[scale]") {
  auto training = two_units();
  const auto plain = plan_of(training, 1);
  CHECK(plain.memory.total() > 0);
  for (const auto divided : {Divided::state, Divided::weights}) {
    training.divided = divided;
    const auto plan = plan_of(training, 1);
    CHECK(plan.step.seconds == plain.step.seconds);
    CHECK(plan.step.communication == 0);
    CHECK(plan.memory.total() == plain.memory.total());
    CHECK(plan.weight_bytes == 0);
    CHECK(plan.bytes_per_step == 0);
  }
}

TEST_CASE("a plan has the memory and the traffic of what ranks divide", "[scale]") {
  auto training = two_units();
  training.fixed_bytes = 100;
  training.state_numbers = 2;
  training.evaluated_images = 1000;
  const auto ddp = plan_of(training, 2);
  CHECK(ddp.memory.parameters == 16e6 + 100);
  CHECK(ddp.memory.gradients == 16e6);
  CHECK(ddp.memory.optimizer_state == 32e6);
  CHECK(ddp.memory.gathered == 0);
  CHECK(ddp.memory.half_precision_copies == 0);
  CHECK(ddp.memory.activations == 1e6 * 32 * 4);
  CHECK(ddp.bytes_per_step == 16e6);
  CHECK(ddp.weight_bytes == 0);

  training.divided = Divided::state;
  const auto state = plan_of(training, 2);
  CHECK(state.memory.parameters == 16e6 + 100);
  CHECK(state.memory.gradients == 16e6);
  CHECK(state.memory.optimizer_state == 24e6);  // of the larger parameter
  CHECK(state.memory.gathered == 12e6);
  CHECK(state.bytes_per_step == 16e6);
  CHECK(state.weight_bytes == 16e6);
  CHECK(state.step.seconds > ddp.step.seconds);
  CHECK(state.evaluation_seconds == Approx(ddp.evaluation_seconds));
  CHECK(state.stall_seconds ==
        Approx((state.memory.parameters + state.memory.optimizer_state) / 50e9));

  training.divided = Divided::weights;
  const auto weights = plan_of(training, 2);
  CHECK(weights.memory.parameters == 12e6 + 100);
  CHECK(weights.memory.gradients == 12e6);
  CHECK(weights.memory.optimizer_state == 24e6);
  CHECK(weights.memory.gathered == 16 * 3e6);
  CHECK(weights.bytes_per_step == 16e6);
  CHECK(weights.weight_bytes == 16e6 + 4e6);  // the second unit still has them, going back
  CHECK(weights.evaluation_seconds > ddp.evaluation_seconds);
  training.weight_bytes = 2;
  CHECK(plan_of(training, 2).weight_bytes == weights.weight_bytes / 2);
  training.weight_bytes = 4;
  training.precision = Precision::amp_fp16;
  const auto rounded = plan_of(training, 2);
  CHECK(rounded.memory.half_precision_copies == 2 * 4e6);
  CHECK(rounded.memory.total() ==
        weights.memory.total() + 2 * 4e6 - weights.memory.activations / 2);
  training.precision = Precision::fp32;
  training.microbatches = 4;
  CHECK(plan_of(training, 2).weight_bytes == 4 * weights.weight_bytes);
  CHECK(plan_of(training, 2).bytes_per_step == 4 * 16e6);
  CHECK(plan_of(training, 2).evaluation_seconds == weights.evaluation_seconds);
  training.evaluated = training.parts[0].work;
  CHECK(plan_of(training, 2).evaluation_seconds == weights.evaluation_seconds);
  CHECK(plan_of(training, 16).machine_bytes_per_s > 0);

  Assumptions assumptions;
  assumptions.simulated_steps = 100000;
  assumptions.gpu_hours_per_failure = 0;
  CHECK_FALSE(plan_of(training, 8, assumptions).simulated);  // 20 transfers a step
  assumptions.simulated_steps = 10;
  const auto simulated = plan_of(training, 8, assumptions);
  REQUIRE(simulated.simulated);
  CHECK(simulated.simulated->seconds_per_step == Approx(simulated.step.seconds));
}

TEST_CASE("GPUs that share images have fewer shares of the batch", "[scale]") {
  auto training = two_units();
  training.image_bytes = 100;
  const auto ddp = plan_of(training, 8);
  training.parts[0].rows = training.parts[0].work;
  auto& rows = *training.parts[0].rows;
  rows.flops_forward /= 2, rows.flops_step /= 2, rows.activation_values /= 2;
  rows.operations[1].forward = {.values = 1000, .messages = 1};
  training.spatial_ranks = 2;
  const auto plan = plan_of(training, 8);
  CHECK(plan.images_per_gpu == 2 * ddp.images_per_gpu);
  CHECK(plan.row_bytes == 16 * 1000 * 4);
  CHECK(plan.step.compute == Approx(ddp.step.compute));
  CHECK(plan.step.seconds > ddp.step.seconds);
  CHECK(plan.memory.activations == ddp.memory.activations);
  CHECK(plan.storage_bytes_per_s == Approx(plan.images_per_s * 200));
  CHECK_THROWS_WITH(plan_of(training, 3),
                    Catch::Contains("--gpus: 3 is no multiple of the 2 GPUs that share an image "
                                    "(spatial_ranks); give one, for instance 4"));
  CHECK_THROWS_WITH(plan_of(training, 256),
                    Catch::Contains("--gpus: 256 GPUs, 2 to an image, share a batch of 64"));
}

}  // namespace composer::sharded_step_test
