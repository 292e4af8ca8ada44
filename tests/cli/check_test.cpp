// composer check, as a user calls it.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::check_test {

using Catch::Contains;
using nlohmann::json;

namespace {

const std::string recipe = R"(model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {shapes: {samples: 64}}
optimizer: {decoupled_sgdw: {lr: 0.1, momentum: 0.9}}
schedulers: [cosine_decay]
algorithms: [channels_last, label_smoothing, mixup, stochastic_depth, ema]
callbacks: [speed_monitor]
train_batch_size: 16
max_duration: 2ep
device: cpu
precision: bf16
run_name: run
dataloader: {num_workers: 1}
)";

Outcome check(const TemporaryFolder& folder, const std::string& rest) {
  folder.write("r.yaml", recipe);
  return run(folder.path(), split("check -f r.yaml " + rest));
}

}  // namespace

TEST_CASE("check holds bf16 against float32 on the recipe's batches, with its random draws",
          "[cli][check]") {
  const TemporaryFolder folder;
  const auto outcome = check(folder, "--against fp32 --steps 2 --free_steps 1 --json");
  INFO(outcome.errors << outcome.output);
  REQUIRE(outcome.status == 0);
  const auto result = json::parse(outcome.output);
  CHECK(result["within"] == true);
  CHECK(result["steps"] == 2);
  CHECK(result["batch_size"] == 16);
  CHECK(result["algorithms"] ==
        json({"channels_last", "label_smoothing", "mixup", "stochastic_depth", "ema"}));
  CHECK(result["checked"]["precision"] == "amp_bf16");
  CHECK(result["reference"]["precision"] == "fp32");
  CHECK(result["free_losses"].size() == 1);
  REQUIRE(result["deviations"].size() == 5);
  for (const auto& deviation : result["deviations"]) {
    INFO(deviation);
    if (deviation["what"] == "logits") CHECK(deviation["deviation"] > 0);
    CHECK(deviation["deviation"] <= deviation["tolerance"]);
    CHECK(deviation["by_step"].size() == 2);
  }
  CHECK_FALSE(std::filesystem::exists(folder / "runs"));
}

TEST_CASE("check holds the operators of our own against LibTorch's", "[cli][check]") {
  const TemporaryFolder folder;
  const auto setting = GENERATE("fp32", "bf16", "fp32 --seed 2", "fp32 --seed 3");
  const auto outcome =
      check(folder, std::string("--against unfused --steps 2 --json --precision ") + setting);
  INFO(setting << outcome.errors << outcome.output);
  REQUIRE(outcome.status == 0);
  const auto result = json::parse(outcome.output);
  CHECK(result["checked"]["precision"] == result["reference"]["precision"]);
  for (const auto& deviation : result["deviations"])
    if (deviation["what"] == "logits") CHECK(deviation["deviation"] > 0);
  CHECK_THAT(outcome.errors, !Contains("none of composer's own operators"));
}

TEST_CASE("check says where the recipe uses no operator of our own", "[cli][check]") {
  const TemporaryFolder folder;
  auto plain = recipe;
  plain.replace(0, plain.find('\n'),
                "model: {resnet_cifar: {model_name: resnet_20, norm: group_norm}}");
  const std::string optimizer = "{decoupled_sgdw: {lr: 0.1, momentum: 0.9}}";
  plain.replace(plain.find(optimizer), optimizer.size(),
                "{muon: {lr: 0.1}}\nfreeze: ['*bn*', '*downsample.1*', 'fc.*', '*.bias']");
  folder.write("plain.yaml", plain);
  const auto outcome =
      run(folder.path(), split("check -f plain.yaml --against unfused --steps 1 --precision fp32"));
  INFO(outcome.errors << outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.errors, Contains("none of composer's own operators"));
}

TEST_CASE("check says for people what differs most", "[cli][check]") {
  const TemporaryFolder folder;
  const auto outcome = check(folder, "--against fp32 --steps 1");
  INFO(outcome.errors << outcome.output);
  CHECK(outcome.status == 0);
  for (const char* text :
       {"amp_bf16 on cpu", "against fp32 on cpu", "1 step of 16 images",
        "algorithms: channels_last, label_smoothing, mixup, stochastic_depth, ema\n",
        "gradients   all within what rounding does", "all is within the tolerances"})
    CHECK_THAT(outcome.output, Contains(text));
}

TEST_CASE("check ends on a signal and says so", "[cli][check]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  const Process process(
      folder.path(), split("check -f r.yaml --against fp32 --max_duration 9999ep --steps 99999"));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  process.signal(SIGINT);
  const auto ended = process.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.errors, Contains("check: interrupted; nothing is reported"));
}

TEST_CASE("check refuses what it cannot compare", "[cli][check]") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& rest, const std::string& text) {
    const auto outcome = check(folder, rest);
    INFO(rest << "\n" << outcome.errors);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(text));
  };
  refused("--against fp23", "did you mean 'fp32'?");
  refused("--against cpu", "the recipe's device is the CPU already");
  refused("--against fp32 --precision fp32", "is fp32 here already");
  refused("--against fp32 --steps 0", "--steps");
  refused("--against fp32 --momentun 0.5", "did you mean");
  refused("", "--against is required");
}

}  // namespace composer::check_test
