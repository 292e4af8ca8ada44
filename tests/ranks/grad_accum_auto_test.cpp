// grad_accum: auto where one of several ranks runs out of memory.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/composer/terminal.h"
#include "tests/out_of_memory.h"
#include "tests/ranks/double_run.h"

namespace composer::grad_accum_auto_test {

using namespace composer::test;
using Catch::Contains;

namespace {

class BatchNormModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return fc_(average_(op::relu(norm_(conv_(input)))));
  }
  int64_t num_classes() const override { return 10; }

 private:
  Slot& conv_ = add<Conv2d>("conv", Conv2dOptions{3, 8, {3, 3}, {2, 2}, {1, 1}});
  Slot& norm_ = add<BatchNorm2d>("norm", 8);
  Slot& average_ = add<AdaptiveAvgPool2d>("average");
  Slot& fc_ = add<Linear>("fc", 8, 10);
};

const std::vector<Shortage> shortages{
    {1, "before_forward", 1, 1}, {5, "backward", 1, 0, 1}, {5, "after_backward", 1, 1, 3}};

Setup setup_of(bool automatic, const std::string& parallelism = "ddp",
               const std::string& grad_comm = "fp32") {
  Setup setup;
  setup.batches = 12, setup.batch_size = 24;
  setup.model = [] { return std::make_shared<BatchNormModel>(); };
  setup.change = [=](TrainerParts& parts) {
    parts.options.parallelism = parallelism;
    parts.options.grad_comm = grad_comm;
    parts.options.bucket_mb = 0.0005;  // several
    if (automatic) parts.options.grad_accum = Microbatches::by_memory();
  };
  return setup;
}

void check_same(const Trained& a, const Trained& b) {
  REQUIRE(a.weights.size() == b.weights.size());
  for (const auto& [name, weight] : a.weights) {
    CAPTURE(name);
    CHECK(at::equal(weight, b.weights.at(name)));
  }
  CHECK(a.losses == b.losses);
  for (const char* metric : {"metrics/eval/Accuracy", "metrics/eval/CrossEntropy"})
    CHECK(a.metrics.at(metric) == b.metrics.at(metric));  // those of running statistics
  CHECK(a.metrics.at("metrics/train/Accuracy") == b.metrics.at("metrics/train/Accuracy"));
}

}  // namespace

TEST_CASE("where one rank runs out of memory, all do the step again in smaller parts",
          "[ranks][grad_accum]") {
  const int64_t size = GENERATE(2, 3);
  const std::string parallelism = GENERATE("ddp", "zero1");
  CAPTURE(size, parallelism);
  auto automatic = setup_of(true, parallelism), split = setup_of(false, parallelism);
  automatic.batch_size = split.batch_size = 50;  // a number splits smaller batches otherwise
  automatic.add = [](Trainer& trainer) { trainer.add<OutOfMemoryAt>("out_of_memory", shortages); };
  split.add = [](Trainer& trainer) { trainer.add<SplitAt>("split", shortages); };
  const auto repeated = train_on(size, automatic);
  CHECK(repeated.summary.grad_accum == 8);
  CHECK(repeated.metrics.at("grad_accum") == 8);
  check_same(repeated, train_on(size, split));
}

TEST_CASE("gradients that are summed after the passes have the bits of those summed meanwhile",
          "[ranks][grad_accum]") {
  const std::string grad_comm = GENERATE("fp32", "bf16");
  CAPTURE(grad_comm);
  check_same(train_on(3, setup_of(true, "ddp", grad_comm)),
             train_on(3, setup_of(false, "ddp", grad_comm)));
}

TEST_CASE("ranks end where one sample is too much for the memory of one", "[ranks][grad_accum]") {
  auto setup = setup_of(true);
  setup.add = [](Trainer& trainer) {
    trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{1, "after_forward", 99, 1}});
  };
  CHECK_THROWS_WITH(train_on(2, setup), Contains("a microbatch of one sample"));
}

TEST_CASE("a rank whose share of a small batch is too much splits it, those of one sample do not",
          "[ranks][grad_accum]") {
  auto setup = setup_of(true);  // whose fifth batch has 4 samples: 1, 1 and 2
  setup.add = [](Trainer& trainer) {
    trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{4, "before_forward", 1, 2}});
  };
  CHECK(train_on(3, setup).summary.grad_accum == 8);
}

TEST_CASE("the largest microbatch of all ranks is told", "[ranks][grad_accum]") {
  auto setup = setup_of(true);
  setup.batches = 2, setup.batch_size = 25;  // 12 and 13 samples
  setup.add = [](Trainer& trainer) {
    trainer.add<OutOfMemoryAt>("out_of_memory", std::vector<Shortage>{{0, "after_forward"}});
  };
  const auto lines = standard_error_of([&] { train_on(2, setup); });
  CHECK_THAT(lines, Contains("into 2 microbatches, of at most 7 samples on a rank"));
}

TEST_CASE("ranks that meet within their passes cannot repeat them", "[ranks][grad_accum]") {
  TrainerOptions options;
  options.train_batch_size = 8;
  options.max_duration = {1, TimeUnit::epoch};
  options.grad_accum = Microbatches::by_memory();
  CHECK(options.check().empty());
  options.parallelism = "fsdp";
  CHECK_THAT(options.check(), Contains("grad_accum: auto cannot be with parallelism: fsdp"));
  options.parallelism = "ddp", options.spatial_ranks = 2;
  CHECK_THAT(options.check(), Contains("grad_accum: auto cannot be with spatial_ranks"));
}

}  // namespace composer::grad_accum_auto_test
