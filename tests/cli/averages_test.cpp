// What averages of the weights are for: evaluation, prediction and export take them by name.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/main.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/safetensors.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/registry.h"
#include "composer/run/assemble.h"
#include "program.h"
#include "tests/composer/stopped_run.h"
#include "tests/temporary_folder.h"

namespace composer::averages_test {

namespace fs = std::filesystem;

namespace {

const std::string recipe = R"(model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {shapes: {samples: 64}}
val_dataset: {shapes: {is_train: false, shuffle: false, drop_last: false, samples: 40}}
optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
algorithms:
  channels_last:
  ema: {half_life: 2ba}
train_batch_size: 16
eval_batch_size: 16
max_duration: 1ep
device: cpu
dataloader: {num_workers: 1}
)";

const std::string latest = "runs/run/checkpoints/latest";

class OneMore : public Algorithm {
 public:
  static constexpr const char* average_prefix = "mine/";
  void batch_end(State& state) override { weights_ = model_tensors(*state.model); }
  StateDict state_dict() const override {
    StateDict state;
    for (const auto& [name, tensor] : weights_) state.tensors["mine/" + name] = tensor + 1;
    return state;
  }

 private:
  TensorMap weights_;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("eval, predict and export take the average that ema kept",
          "[cli][averages][train][slow]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  REQUIRE(run(folder.path(), split("train -f r.yaml --run_name run")).status == 0);
  const auto output = [&](const std::string& words) {
    const auto outcome = run(folder.path(), split(words));
    INFO(words << "\n" << outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.output;
  };

  const auto averaged = output("eval -f r.yaml --load_path " + latest);
  const auto plain = output("eval -f r.yaml --algorithms channels_last --load_path " + latest);
  const auto summary = nlohmann::json::parse(bytes_of(folder / "runs/run/summary.json"));
  const auto loss = [](const std::string& line) {
    return nlohmann::json::parse(line).at("metrics/eval/CrossEntropy").get<double>();
  };
  const auto at_the_end = summary.at("metrics").at("metrics/eval/CrossEntropy").get<double>();
  CHECK(loss(averaged) == Approx(at_the_end).epsilon(1e-5));
  CHECK(loss(plain) != Approx(at_the_end).epsilon(1e-3));

  const auto to_export = "export " + latest + " --format safetensors --output ";
  output(to_export + "average --weights ema");
  const auto alone = "-f r.yaml --algorithms channels_last --load_path average ";
  CHECK(output(std::string("eval ") + alone) == averaged);
  std::ofstream(folder / "image.ppm") << "P6 1 1 255\nabc";
  CHECK(output(std::string("predict --logits --source image.ppm ") + alone) ==
        output("predict --logits --source image.ppm -f r.yaml --load_path " + latest));

  output(to_export + "model --weights model");
  check_equal(read_safetensors(folder / "model/model.safetensors"),
              read_safetensors(folder / (latest + "/model-00001-of-00001.safetensors")));

  // A fine-tuning begins with what the checkpoint was evaluated by.
  const auto tuned =
      run(folder.path(), split("train -f r.yaml --algorithms channels_last --run_name tuned "
                               "--load_weights_only true --max_duration 1ba --optimizer.sgd.lr 0 "
                               "--load_path " +
                               latest));
  INFO(tuned.errors);
  REQUIRE(tuned.status == 0);
  CHECK(tuned.errors.find("the average that ema keeps") != std::string::npos);
  CHECK(at::equal(read_weights(folder / "runs/tuned/checkpoints/latest").at("conv1.weight"),
                  read_safetensors(folder / "average/model.safetensors").at("conv1.weight")));

  const auto swa = run(folder.path(), split(to_export + "swa --weights swa"));
  CHECK(swa.status == 2);
  CHECK(swa.errors.find("has no weights of swa") != std::string::npos);
  CHECK_FALSE(fs::exists(folder / "swa"));
}

TEST_CASE("swa's average is exported with the model's buffers, until it is the model",
          "[cli][averages][train][slow]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  REQUIRE(run(folder.path(),
              split("train -f r.yaml --run_name run --algorithms swa --val_dataset none "
                    "--swa_start 1ba --swa_end 3ba --swa.update_interval 1ba --save_interval 2ba"))
              .status == 0);
  const auto exported = [&](const std::string& checkpoint) {
    return run(folder.path(), split("export runs/run/checkpoints/" + checkpoint +
                                    " --format safetensors --output swa --weights swa"));
  };
  const auto finished = exported("latest");
  CHECK(finished.status == 2);
  CHECK(finished.errors.find("--weights model") != std::string::npos);
  const auto going = exported("ep0-ba2");
  INFO(going.errors);
  REQUIRE(going.status == 0);
  const auto average = read_safetensors(folder / "swa/model.safetensors"),
             model = read_safetensors(folder /
                                      "runs/run/checkpoints/ep0-ba2/"
                                      "model-00001-of-00001.safetensors");
  CHECK(average.size() == model.size());
  CHECK(at::equal(average.at("bn1.running_mean"), model.at("bn1.running_mean")));
  CHECK_FALSE(at::equal(average.at("conv1.weight"), model.at("conv1.weight")));
}

TEST_CASE("a program's own algorithm has its average exported too", "[cli][averages][slow]") {
  add_builtin_components();
  registry().algorithms.add<OneMore>("one_more", "keeps the weights and one more");
  const TemporaryFolder folder;
  Trainer trainer(assemble_training(
      resolve({"the test's recipe", recipe},
              split("--algorithms one_more --run_name run --progress_bar false --run_dir " +
                    (folder / "runs").string()))));
  trainer.fit();
  const auto checkpoint = (folder / latest).string();
  const auto net = (folder / "net").string();
  const auto exported = [&](const std::string& weights) {
    return export_command(
        {checkpoint, "--format", "safetensors", "--output", net, "--weights", weights});
  };
  CHECK(exported("one_more") == 0);
  auto expected = load_checkpoint(checkpoint).model;
  for (auto& [name, tensor] : expected) tensor = tensor + 1;
  check_equal(read_weights(net + "/model.safetensors"), expected);
  CHECK_THROWS_WITH(exported("two_more"), Catch::Contains("(ema, one_more, swa)"));
}

TEST_CASE("describe says what an algorithm does not go with", "[cli][averages][slow]") {
  const TemporaryFolder folder;
  for (const auto& [name, other] : {std::pair{"swa", "ema"}, std::pair{"ema", "swa"}}) {
    const auto described = run(folder.path(), {"describe", "algorithm", name});
    CHECK(described.status == 0);
    CHECK(described.output.find(std::string("not with ") + other) != std::string::npos);
  }
  CHECK(run(folder.path(), {"describe", "algorithm", "channels_last"}).output.find("in a recipe") ==
        std::string::npos);
}

}  // namespace composer::averages_test
