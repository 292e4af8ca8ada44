#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "composer/callbacks/callbacks.h"
#include "tiny_run.h"

namespace composer::speed_monitor_test {

namespace {

/// Lets the loop wait for each batch.
class SlowLoader : public TinyLoader {
 public:
  SlowLoader(int64_t samples, int milliseconds) : TinyLoader(samples, 8), wait_(milliseconds) {}
  std::optional<RawBatch> next() override {
    std::this_thread::sleep_for(wait_);
    return TinyLoader::next();
  }

 private:
  std::chrono::milliseconds wait_;
};

/// time/wait_fraction of each batch, and the seconds of a batch over a window of one.
struct Waits {
  std::vector<double> fractions, batch_seconds;
  double summary = -1;
};

Waits run_with(int training_wait, int evaluation_wait) {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path();
  parts.options.run_name = "run";
  parts.options.eval_interval = {1, TimeUnit::batch};
  parts.train_loader = std::make_shared<SlowLoader>(32, training_wait);
  parts.eval_loader = std::make_shared<SlowLoader>(8, evaluation_wait);
  parts.callbacks.push_back({"speed_monitor",
                             std::make_shared<SpeedMonitor>(SpeedMonitor::Params{1}),
                             subscriptions<SpeedMonitor>()});
  const auto summary = Trainer(std::move(parts)).fit();
  Waits waits;
  std::ifstream file(folder / "run" / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("throughput/samples_per_sec")) continue;
    waits.fractions.push_back(record.at("time/wait_fraction"));
    waits.batch_seconds.push_back(8 / record.at("throughput/samples_per_sec").get<double>());
  }
  waits.summary = summary.metrics.at("time/wait_fraction");
  return waits;
}

}  // namespace

TEST_CASE("time/wait_fraction is what the loop waits for data of the time it trains",
          "[speed_monitor]") {
  const auto [fractions, batch_seconds, summary] = run_with(20, 0);
  REQUIRE(fractions.size() == 8);
  CHECK(fractions[0] < 0.5);  // counted from the first batch's start
  for (size_t i = 1; i < fractions.size(); ++i) {
    CHECK(fractions[i] <= 1);
    CHECK(fractions[i] * batch_seconds[i] >= 0.0199);
  }
  CHECK(summary == fractions.back());
}

TEST_CASE("time/wait_fraction leaves evaluation's waits out", "[speed_monitor]") {
  const auto [fractions, batch_seconds, summary] = run_with(0, 20);
  REQUIRE(fractions.size() == 8);
  for (size_t i = 0; i < fractions.size(); ++i) CHECK(fractions[i] * batch_seconds[i] < 0.01);
}

TEST_CASE("a summary says what limited the run, once its first batches are over",
          "[speed_monitor]") {
  RunClock clock;
  for (int i = 0; i < 10; ++i) clock.count(8, 5, 5);
  CHECK_FALSE(clock.wait_fraction());
  for (int i = 0; i < 4; ++i) clock.count(8, 2, 0.5);
  CHECK(clock.wait_fraction() == 0.25);
  CHECK(clock.samples_per_second() == 4);

  Summary summary;
  CHECK(summary.limited_by().empty());
  for (const auto& [fraction, limit] : {std::pair<double, std::string>{0, "step"},
                                        {0.049, "step"},
                                        {0.05, "step and data"},
                                        {0.249, "step and data"},
                                        {0.25, "data"},
                                        {1, "data"}}) {
    summary.wait_fraction = fraction;
    CHECK(summary.limited_by() == limit);
  }
}

TEST_CASE("the wait for data of a whole run stands in its summary", "[speed_monitor]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path();
  parts.options.run_name = "run";
  parts.options.max_duration = {20, TimeUnit::batch};
  parts.train_loader = std::make_shared<SlowLoader>(32, 20);
  const auto summary = Trainer(std::move(parts)).fit();
  REQUIRE(summary.wait_fraction);
  CHECK(*summary.wait_fraction > 0.05);
  CHECK(*summary.wait_fraction <= 1);
  const auto written = nlohmann::json::parse(std::ifstream(folder / "run" / "summary.json"));
  CHECK(written.at("wait_fraction") == *summary.wait_fraction);
  CHECK(written.at("limited_by") == summary.limited_by());
}

}  // namespace composer::speed_monitor_test
