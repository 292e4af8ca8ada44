#include "cli/headspace.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::headspace_test {

using Catch::Contains;
using nlohmann::json;

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

const std::string recipe = R"(model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {shapes: {samples: 256}}
optimizer: {sgd: {lr: 0.1}}
algorithms: [channels_last]
train_batch_size: 16
max_duration: 2ep
device: cpu
dataloader: {num_workers: 1}
)";

}  // namespace

TEST_CASE("the step limits a run that a free loader would hardly speed up", "[headspace]") {
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
          "[headspace]") {
  auto rates = balanced();
  rates.loader_free = 180, rates.step_free = 9000, rates.wait_fraction = 0.03;
  CHECK(judge(rates, {}).limit == Limit::step);
  rates.wait_fraction = 0.3;
  CHECK(judge(rates, {}).limit != Limit::step);
  CHECK(judge(rates, {}).gain == Approx(1 / (1 - 0.3 - 1.0 / 90)));
}

TEST_CASE("rates that contradict each other are called so", "[headspace]") {
  CHECK_THAT(judge(balanced(), {}).text, !Contains("contradict"));
  Headspace rates;
  rates.as_it_is = 180, rates.wait_fraction = 0.146;
  rates.loader_free = 160, rates.step_free = 5000;
  CHECK_THAT(judge(rates, {}).text, Contains("contradict each other"));
}

TEST_CASE("decoding limits where decoded samples give what a free loader gives", "[headspace]") {
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

TEST_CASE("the rest of the loader limits where decoding does not", "[headspace]") {
  auto rates = balanced();
  rates.loader_free = 200, rates.decoding_free = 110, rates.step_free = 105;
  const auto verdict = judge(rates, {});
  CHECK(verdict.limit == Limit::loader);
  CHECK(verdict.gain == Approx(2));
  CHECK(advises(verdict, "augmentations"));
}

TEST_CASE("the storage limits where the samples come from there, and slowly", "[headspace]") {
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

TEST_CASE("the copy limits where batches on the device train faster", "[headspace]") {
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

TEST_CASE("bench headspace measures a recipe and says what limits it", "[cli][headspace]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  const auto outcome =
      run(folder.path(), split("bench headspace -f r.yaml --seconds 0.1 --json --precision fp32"));
  INFO(outcome.errors << outcome.output);
  REQUIRE(outcome.status == 0);
  const auto result = json::parse(outcome.output);
  for (const char* key : {"images_per_s", "loader_free", "step_free", "decoding_free", "gain"})
    CHECK(result[key] > 0);
  CHECK(result["decoded_samples"] == 256);
  CHECK(result["copy_free"].is_null());
  CHECK(result["wait_fraction"] <= 1);
  CHECK(result["step_free"] > result["loader_free"]);  // drawn images cost less than training
  CHECK(result["advice"].size() >= 2);
  CHECK_FALSE(std::filesystem::exists(folder / "runs"));

  const auto told = run(folder.path(), split("bench headspace -f r.yaml --seconds 0.05"));
  CHECK(told.status == 0);
  for (const char* text :
       {"with the loader free", "256 samples, decoded before", "the system counted no bytes read",
        "there is none on the CPU", "the training step limits this run"})
    CHECK_THAT(told.output, Contains(text));
  const auto amp =
      run(folder.path(), split("bench headspace -f r.yaml --seconds 0.05 --precision amp"));
  CHECK(amp.status == 0);
  CHECK(amp.output.find("--precision amp") == std::string::npos);
}

TEST_CASE("bench headspace says that noise lies on no storage", "[cli][headspace]") {
  const TemporaryFolder folder;
  auto noise = recipe;
  noise.replace(noise.find("shapes: {samples: 256}"), 22,
                "synthetic: {num_classes: 10, height: 16, width: 16, samples: 64}");
  folder.write("r.yaml", noise);
  const auto outcome = run(folder.path(), split("bench headspace -f r.yaml --seconds 0.05 --json"));
  INFO(outcome.errors << outcome.output);
  REQUIRE(outcome.status == 0);
  const auto result = json::parse(outcome.output);
  CHECK(result["loader_cold"].is_null());
  CHECK(result["storage_share"] == 0);
  CHECK(result["decoded_samples"] == 64);
}

TEST_CASE("bench headspace ends on a signal, and refuses what it cannot measure",
          "[cli][headspace]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  const Process process(folder.path(), split("bench headspace -f r.yaml --seconds 60"));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  process.signal(SIGINT);
  const auto ended = process.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.errors, Contains("bench: interrupted; nothing is reported"));
  const auto refused = run(folder.path(), split("bench headspace -f r.yaml --momentun 0.5"));
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("did you mean"));
  CHECK(run(folder.path(), split("bench headspace")).status == 2);
}

TEST_CASE("a training ends with what limited it, in the log and in summary.json", "[cli]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  const auto outcome = run(folder.path(), split("train -f r.yaml --run_name run"));
  INFO(outcome.errors);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.errors, Contains("limited by the step"));
  CHECK_THAT(outcome.errors, Contains("% of the time"));
  const auto summary = json::parse(std::ifstream(folder / "runs/run/summary.json"));
  CHECK(summary["limited_by"].get<std::string>().starts_with("step"));
  CHECK(summary["wait_fraction"] < 0.25);
  CHECK(summary["metrics"].contains("time/wait_fraction"));  // by default
}

}  // namespace composer::headspace_test
