// composer bench headspace.
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
