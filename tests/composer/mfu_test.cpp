#include <catch2/catch.hpp>

#include "composer/callbacks/monitors.h"
#include "nn/device/gpu_name.h"
#include "nn/network/cost.h"
#include "tests/composer/tiny_run.h"
#include "tests/gpu.h"
#include "tests/ranks.h"

namespace composer::mfu_test {
namespace {

/// The last value of each name.
class LastValues : public LogSink {
 public:
  explicit LastValues(std::map<std::string, double>& values) : values_(values) {}
  void write(const Record& record) override {
    for (const auto& [name, value] : record.values) values_[name] = value;
  }

 private:
  std::map<std::string, double>& values_;
};

/// Calls a callback as the loop does, with a clock that the test turns.
class Loop {
 public:
  explicit Loop(Mfu::Params params, const Ranks& ranks = {})
      : mfu_(params, [this] { return now; }) {
    state.ranks = ranks;
    logger_.add(std::make_shared<LastValues>(values_));
    state.model = std::make_shared<TinyModel>();
    mfu_.fit_start(state, logger_, control_);
    mfu_.epoch_start(state, logger_, control_);
  }

  void batch(int64_t samples, int64_t size, double seconds) {
    state.batch.input = at::zeros({samples, 3, size, size});
    mfu_.batch_start(state, logger_, control_);
    now += seconds;
    state.time.next_batch(samples);
    mfu_.batch_end(state, logger_, control_);
  }
  void evaluation(double seconds) {
    mfu_.eval_start(state, logger_, control_);
    now += seconds;
    mfu_.eval_end(state, logger_, control_);
  }
  void epoch() { mfu_.epoch_start(state, logger_, control_); }

  double value() {
    logger_.commit("batch", state.time);
    logger_.flush();
    return values_.at("throughput/mfu");
  }

  /// Of one image's training step.
  double flops(int64_t size) {
    const auto graph = record(*state.model, at::zeros({1, 3, size, size}));
    return static_cast<double>(cost_of(graph, *state.model).flops_step);
  }

  double now = 10;
  State state;

 private:
  Mfu mfu_;
  Logger logger_;
  RunControl control_;
  std::map<std::string, double> values_;
};

std::map<std::string, double> run_with_monitors(bool monitors, at::Tensor& weights) {
  auto parts = tiny_parts();
  std::map<std::string, double> values;
  parts.loggers.push_back(std::make_shared<LastValues>(values));
  Trainer trainer(std::move(parts));
  if (monitors) trainer.add<Mfu>("mfu", Mfu::Params{});
  trainer.fit();
  weights = weights_of(trainer);
  return values;
}

}  // namespace

TEST_CASE("mfu is images a second, times FLOPs of an image's step, over the peak", "[mfu]") {
  Loop loop({.peak_flops = 2e6, .window_size = 3});
  const double flops = loop.flops(8);
  loop.batch(4, 8, 0.5);
  CHECK(loop.value() == Approx(4 / 0.5 * flops / 2e6));
  loop.evaluation(100);
  loop.batch(2, 8, 0.25);
  CHECK(loop.value() == Approx(6 / 0.75 * flops / 2e6));

  // Other sizes count as what they are; the first batch falls out of the window.
  const double larger = loop.flops(16);
  CHECK(larger > 4 * flops);
  loop.batch(3, 16, 1);
  loop.batch(1, 8, 0.5);
  CHECK(loop.value() == Approx((3 * flops + 3 * larger) / 1.75 / 2e6));
}

TEST_CASE("mfu of several ranks is over the peak of all their devices", "[mfu][ranks]") {
  std::atomic<double> of_two = 0;
  test::in_ranks(2, [&](const Ranks& ranks) {
    Loop loop({.peak_flops = 2e6, .window_size = 1}, ranks);
    loop.batch(8, 8, 0.5);  // images of both
    if (ranks.first()) of_two = loop.value() / loop.flops(8);
  });
  CHECK(of_two == Approx(8 / 0.5 / 4e6));
}

TEST_CASE("mfu leaves out the gradients of layers that were frozen", "[mfu]") {
  Loop loop({.peak_flops = 1e6, .window_size = 1});
  loop.batch(4, 8, 1);
  const double before = loop.value();
  loop.state.model->freeze({"conv.*"});
  loop.epoch();
  loop.batch(4, 8, 1);
  CHECK(loop.value() == Approx(4 * loop.flops(8) / 1e6));
  CHECK(loop.value() < before);
}

TEST_CASE("mfu changes nothing of a run, and is plausible against the measured peak", "[mfu]") {
  at::Tensor with, without;
  const auto values = run_with_monitors(true, with);
  CHECK(run_with_monitors(false, without).count("throughput/mfu") == 0);
  CHECK(at::equal(with, without));
  CHECK(values.at("throughput/mfu") > 0);
  CHECK(values.at("throughput/mfu") < 1.5);
}

TEST_CASE("the peak is the published one of a known GPU, else measured", "[mfu]") {
  CHECK(published_peak("NVIDIA H100 80GB HBM3", Precision::amp_bf16) == 989.4e12);
  CHECK(published_peak("NVIDIA A100-SXM4-40GB", Precision::amp_fp16) == 312e12);
  CHECK(published_peak("NVIDIA A100-SXM4-40GB", Precision::fp32) == 19.5e12);
  CHECK_FALSE(published_peak("Tesla V100-SXM2-16GB", Precision::amp_bf16));
  CHECK_FALSE(published_peak("Another", Precision::fp32));

  const auto measured = peak_flops(Precision::fp32, at::kCPU);
  CHECK(measured.per_second > 1e8);
  CHECK(measured.per_second < 1e15);
  CHECK(measured.source.find("measured") != std::string::npos);
}

TEST_CASE("a GPU has the name that its driver gives it", "[mfu][gpu]") {
  CHECK(gpu_name(open_cuda().gpus).empty());
  if (test::has_gpu()) CHECK_FALSE(gpu_name(0).empty());
}

}  // namespace composer::mfu_test
