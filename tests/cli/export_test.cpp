// composer export on real runs: what comes out computes what predict does with the checkpoint.
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/main.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/weights.h"
#include "data/datasets/dataset_params.h"
#include "inference/network_folder.h"
#include "nn/network/normalize.h"
#include "program.h"
#include "tests/composer/terminal.h"
#include "tests/inference/networks.h"
#include "tests/inference/onnx_peer.h"

namespace composer::export_test {

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

void write_pictures(const fs::path& folder, int count) {
  for (const std::string name : {"ape", "bee", "cat"}) {
    fs::create_directories(folder / name);
    for (int i = 0; i < count; ++i) {
      std::ofstream file(folder / name / (std::to_string(i) + ".ppm"), std::ios::binary);
      file << "P6 44 40 255\n";
      for (int p = 0; p < 44 * 40; ++p)
        file << static_cast<char>(60 * (name[0] - 'a') + p % 23)
             << static_cast<char>(i * 9 + p / 44) << static_cast<char>(200 - p % 101);
    }
  }
}

const std::string small_network = "{resnet_cifar: {model_name: resnet_20, num_classes: 3}}";

std::string recipe_of(const std::string& model, const std::string& algorithms) {
  return "model: " + model + "\nalgorithms: " + algorithms + R"(
train_dataset: {image_folder: {datadir: train, crop_size: 32}}
val_dataset: {image_folder: {datadir: val, is_train: false, shuffle: false, drop_last: false, crop_size: 32, resize_size: 36}}
train_batch_size: 4
eval_batch_size: 4
max_duration: 1ep
optimizer: {sgd: {lr: 0.02}}
dataloader: {num_workers: 1}
precision: fp32
device: cpu
run_name: run
)";
}

/// Puts `text` in the place of standard output.
class Output {
 public:
  explicit Output(std::ostringstream& text) : before_(std::cout.rdbuf(text.rdbuf())) {}
  ~Output() { std::cout.rdbuf(before_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

 private:
  std::streambuf* before_;
};

/// A command in this process, which is quicker than one of its own.
Outcome call(int (*command)(const Words&), const std::string& words) {
  add_builtin_components();
  std::ostringstream output;
  const Output standard_output(output);
  Outcome outcome;
  outcome.errors = standard_error_of([&] { outcome.status = command(split(words)); });
  outcome.output = output.str();
  return outcome;
}

json json_of(const fs::path& path) { return json::parse(std::ifstream(path)); }

/// Three batches of a small run, and its checkpoint.
struct Trained {
  explicit Trained(const std::string& recipe, const std::string& words = {}) {
    write_pictures(folder / "train", 4);
    write_pictures(folder / "val", 2);
    folder.write("r.yaml", recipe);
    const auto trained = run(folder.path(), split("train -f r.yaml " + words));
    INFO(trained.errors);
    REQUIRE(trained.status == 0);
  }

  std::string path(const std::string& name) const { return (folder / name).string(); }

  /// What it wrote for people.
  std::string exported(const std::string& from, const std::string& words) const {
    const auto outcome = call(export_command, path(from) + " " + words);
    CHECK(outcome.status == 0);
    return outcome.errors;
  }

  /// By `composer predict`, one row a file.
  at::Tensor predicted(const std::string& words) const {
    const auto outcome = call(predict_command, "--logits --source " + path("val") + " " + words);
    std::vector<at::Tensor> rows;
    std::istringstream lines(outcome.output);
    for (std::string line; std::getline(lines, line);)
      rows.push_back(at::tensor(json::parse(line).at("logits").get<std::vector<double>>()));
    return at::stack(rows).to(at::kFloat);
  }

  /// The files that `predicted` classifies, as the network wants them.
  at::Tensor images(const TrainedNetwork& network) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "val"))
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    std::ranges::sort(files);
    LoaderOptions options;
    options.batch_size = std::ssize(files);
    options.resize_filter = network.resize_filter;
    const auto loader = open_file_loader(files, network.preparation, options);
    loader->start(0, 0);
    return normalize(loader->next()->images, loader->normalization(), at::MemoryFormat::Contiguous);
  }

  /// By the network in the folder that was exported.
  at::Tensor answered(const std::string& name) const {
    const auto network = read_network(folder / name);
    return test::computed(network.graph, images(network));
  }

  TemporaryFolder folder;
  const std::string checkpoint = "runs/run/checkpoints/latest";
};

struct Surgery {
  std::string name, parameters, model = small_network;
};

const std::vector<Surgery> surgeries{
    {"blurpool", "{}"},
    {"squeeze_excite", "{latent_channels: 4, min_channels: 32}"},
    {"factorize", "{min_channels: 32, min_features: 16}"},
    {"whitening", "{}", "{airbench: {widths: [16, 32], num_classes: 3}}"},
    {"stochastic_depth", "{drop_rate: 0.3}"},
    {"ghost_batchnorm", "{ghost_batch_size: 2}"},
    {"weight_standardization", "{}"},
};

}  // namespace

TEST_CASE("what is exported of each surgery computes what predict does", "[cli][export][slow]") {
  test::OnnxPeers peers;
  for (const auto& surgery : surgeries) {
    CAPTURE(surgery.name);
    const Trained trained(recipe_of(surgery.model, "{ema: {half_life: 2ba}, " + surgery.name +
                                                       ": " + surgery.parameters + "}"));
    const auto averaged = trained.predicted("--load_path " + trained.path(trained.checkpoint));
    const auto own =
        trained.predicted("-f " + trained.path("r.yaml") + " --algorithms " + surgery.name +
                          " --load_path " + trained.path(trained.checkpoint));
    CHECK(test::relative(own, averaged) > 1e-3);

    trained.exported(trained.checkpoint, "--format safetensors --output " + trained.path("net"));
    CHECK(test::relative(trained.answered("net"), averaged) < 1e-4);
    trained.exported(trained.checkpoint,
                     "--format safetensors --weights ema --output " + trained.path("ema"));
    CHECK(at::equal(trained.answered("ema"), trained.answered("net")));
    trained.exported(trained.checkpoint,
                     "--format safetensors --weights model --output " + trained.path("model"));
    CHECK(test::relative(trained.answered("model"), own) < 1e-4);

    trained.exported(trained.checkpoint, "--format torchscript --output " + trained.path("net.pt"));
    auto module = torch::jit::load(trained.path("net.pt"));
    const at::NoGradGuard no_grad;
    const auto images = trained.images(read_network(trained.folder / "net"));
    CHECK(test::relative(module.forward({images}).toTensor(), averaged) < 1e-4);
    trained.exported(
        trained.checkpoint,
        "--format onnx --output " + peers.file_for(surgery.name, images, averaged).string());
  }
  const auto results = peers.results();
  if (!results) return;
  CHECK(results->size() == surgeries.size());
  for (const auto& [name, result] : results->items()) {
    CAPTURE(name);
    test::check_distances(result, 1e-4);
  }
}

TEST_CASE("an export tells all that its use needs", "[cli][export][slow]") {
  const Trained trained(recipe_of(small_network, "{ema: {half_life: 2ba}}"));
  const auto summary = json_of(trained.folder / "runs/run/summary.json").at("metrics");
  const auto manifest = json_of(trained.folder / (trained.checkpoint + "/manifest.json"));
  trained.exported(trained.checkpoint, "--format safetensors --output " + trained.path("net"));
  const auto told = json_of(trained.folder / "net/network.json");
  CHECK(told.at("weights") == "ema");
  CHECK(told.at("epoch") == 1);
  CHECK(told.at("batch") == 3);
  CHECK(told.at("class_names") == json{"ape", "bee", "cat"});
  CHECK(told.at("recipe") == manifest.at("recipe"));
  CHECK(told.at("layers") == manifest.at("network"));
  const auto& preparation = told.at("preparation");
  CHECK(preparation.at("channels") == 3);
  CHECK(preparation.at("resize_size") == 36);
  CHECK(preparation.at("resize_filter") == "triangle");
  CHECK(preparation.at("height") == 32);
  CHECK(preparation.at("width") == 32);
  CHECK(preparation.at("mean").size() == 3);
  CHECK(preparation.at("std").size() == 3);
  REQUIRE(told.at("metrics").contains("metrics/eval/Accuracy"));
  for (const auto& [name, value] : told.at("metrics").items()) CHECK(value == summary.at(name));

  SECTION("the evaluation was not of other weights") {
    const auto said = trained.exported(
        trained.checkpoint, "--format safetensors --weights model --output " + trained.path("net"));
    CHECK_THAT(said, Contains("without metrics") && Contains("ema"));
    const auto other = json_of(trained.folder / "net/network.json");
    CHECK(other.at("metrics").empty());
    CHECK(other.at("weights") == "model");
    CHECK_FALSE(fs::exists(trained.folder / "net/.unfinished_network"));
  }
  SECTION("a checkpoint by itself has no metrics") {
    fs::copy(fs::canonical(trained.folder / trained.checkpoint), trained.folder / "moved");
    const auto said =
        trained.exported("moved", "--format safetensors --output " + trained.path("other"));
    CHECK_THAT(said, Contains("moved: without metrics") && Contains("not in its run's folder"));
    CHECK(json_of(trained.folder / "other/network.json").at("metrics").empty());
    CHECK(at::equal(trained.answered("other"), trained.answered("net")));
  }
  SECTION("an export is exported, and its file of weights") {
    trained.exported("net", "--format safetensors --output " + trained.path("again"));
    CHECK(json_of(trained.folder / "again/network.json") == told);
    for (const std::string from : {"net", "net/model.safetensors"}) {
      trained.exported(from, "--format torchscript --overwrite --output " + trained.path("net.pt"));
      auto module = torch::jit::load(trained.path("net.pt"));
      const at::NoGradGuard no_grad;
      const auto images = trained.images(read_network(trained.folder / "net"));
      CHECK(test::relative(module.forward({images}).toTensor(), trained.answered("net")) < 1e-4);
    }
    CHECK_THROWS_WITH(
        call(export_command, trained.path("net") +
                                 " --format torchscript --overwrite --weights model --output " +
                                 trained.path("net.pt")),
        Contains("holds only those of ema; export"));
    CHECK_THROWS_WITH(
        call(export_command, trained.path("net/model.safetensors") +
                                 " --format torchscript --overwrite --weights ema --output " +
                                 trained.path("net.pt")),
        Contains("holds one set of weights"));
    write_safetensors(trained.folder / "alone.safetensors",
                      read_weights(trained.folder / "net/model.safetensors"));
    CHECK_THROWS_WITH(call(export_command, trained.path("alone.safetensors") +
                                               " --format torchscript --overwrite --output " +
                                               trained.path("net.pt")),
                      Contains("alone.safetensors: holds only weights"));
  }
  SECTION("names of other libraries") {
    CHECK_THROWS_WITH(call(export_command, trained.path(trained.checkpoint) +
                                               " --format safetensors --names torchvision "
                                               "--output " +
                                               trained.path("names")),
                      Contains("torchvision has no network like resnet_cifar"));
    CHECK_FALSE(fs::exists(trained.folder / "names"));
  }
}

TEST_CASE("swa's average is exported by its name, before it is the model", "[cli][export][slow]") {
  const Trained trained(recipe_of(small_network,
                                  "{swa: {swa_start: 1ba, swa_end: 3ba, "
                                  "update_interval: 1ba}}"),
                        "--save_interval 2ba");
  const std::string checkpoint = "runs/run/checkpoints/ep0-ba2";
  trained.exported(checkpoint, "--format safetensors --output " + trained.path("net"));
  CHECK(test::relative(trained.answered("net"),
                       trained.predicted("--load_path " + trained.path(checkpoint))) < 1e-4);

  const auto kept = load_checkpoint(trained.folder / checkpoint);
  auto average = kept.model;
  for (const auto& [name, tensor] : kept.parts.at("algorithms.swa").tensors)
    average.at(name.substr(name.find('.') + 1)) = tensor;
  write_safetensors(trained.folder / "average.safetensors", average);
  trained.exported(checkpoint,
                   "--format safetensors --weights swa --output " + trained.path("swa"));
  const auto expected = trained.predicted("-f " + trained.path("r.yaml") + " --load_path " +
                                          trained.path("average.safetensors"));
  CHECK(test::relative(trained.answered("swa"), expected) < 1e-4);
  CHECK(test::relative(trained.answered("swa"), trained.answered("net")) > 1e-4);
}

TEST_CASE("what acts around a prediction is not exported, and the log says so",
          "[cli][export][slow]") {
  const Trained trained(recipe_of(small_network, "{test_time_augmentation: {}}"));
  const auto said =
      trained.exported(trained.checkpoint, "--format safetensors --output " + trained.path("net"));
  CHECK_THAT(said, Contains("algorithms.test_time_augmentation: is no part of the network"));
  CHECK(test::relative(
            trained.answered("net"),
            trained.predicted("-f " + trained.path("r.yaml") + " --algorithms none --load_path " +
                              trained.path(trained.checkpoint))) < 1e-4);
}

TEST_CASE("an export that cannot be made leaves nothing behind", "[cli][export][slow]") {
  const Trained trained(recipe_of(small_network, "{}"));
  trained.folder.write("file", "text");
  const auto export_to = [&](const std::string& output) {
    return call(export_command,
                trained.path(trained.checkpoint) + " --format safetensors --output " + output);
  };
  CHECK_THROWS_WITH(export_to(trained.path("file/net")), Contains("cannot be made a folder"));
  CHECK_THROWS_WITH(export_to(trained.path("file")), Contains("cannot be made a folder"));
  CHECK_THROWS_WITH(export_to(trained.path("val")), Contains("holds other things"));
  CHECK_THROWS_WITH(export_to(trained.path("val") + " --overwrite"),
                    Contains("--overwrite: is for files"));
  CHECK_THROWS_WITH(export_to(trained.path(trained.checkpoint)), Contains("holds other things"));
  if (::geteuid() != 0) {
    fs::create_directory(trained.folder / "locked");
    fs::permissions(trained.folder / "locked", fs::perms::owner_read | fs::perms::owner_exec);
    CHECK_THROWS_WITH(export_to(trained.path("locked")), Contains("cannot be written to"));
    CHECK_THROWS_AS(export_to(trained.path("locked/net")), UserError);
    fs::permissions(trained.folder / "locked", fs::perms::owner_all);
  }
  CHECK(export_to(trained.path("net-1.0")).status == 0);
  const auto verified = [&] {
    return run(trained.folder.path(), split("checkpoint verify net-1.0"));
  };
  CHECK_THAT(verified().output, Contains("net-1.0: whole"));
  std::fstream(trained.folder / "net-1.0/model.safetensors",
               std::ios::binary | std::ios::in | std::ios::out)
      .seekp(4000)
      .put('x');
  CHECK(verified().status == 1);
  CHECK_THAT(verified().output, Contains("is damaged: its checksum differs"));
  CHECK_THROWS_WITH(read_weights(trained.folder / "net-1.0/model.safetensors"),
                    Contains("is damaged: its checksum differs"));

  const auto file = trained.folder / trained.checkpoint / model_file;
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(4000).put('x');
  const auto damaged = run(trained.folder.path(), split("export " + trained.checkpoint +
                                                        " --format safetensors --output other"));
  CHECK(damaged.status == 2);
  CHECK_THAT(damaged.errors, Contains("is damaged"));
  CHECK(std::ranges::count(damaged.errors, '\n') == 1);
  CHECK_FALSE(fs::exists(trained.folder / "other"));
}

TEST_CASE("an export that is killed leaves the one before, or none", "[cli][export][slow]") {
  const Trained trained(recipe_of(small_network, "{}"));
  const auto words = split("export " + trained.checkpoint + " --format safetensors --output net");
  const auto kill_one = [&](int delay) {
    const Process process(trained.folder.path(), words);
    while (!fs::exists(trained.folder / "net/.unfinished_network") && !process.poll())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
    process.signal(SIGKILL);
    process.wait();
  };
  const auto whole = [&] {
    try {
      read_network(trained.folder / "net");
      return true;
    } catch (const UserError& error) {
      CHECK_THAT(error.what(), Contains("no network.json") || Contains("is damaged"));
      return false;
    }
  };
  for (const int delay : {0, 700, 3000}) {
    fs::remove_all(trained.folder / "net");
    kill_one(delay);
    whole();
    CHECK(run(trained.folder.path(), words).status == 0);
    CHECK(whole());
  }
  int kept = 0;
  for (const int delay : {0, 700, 3000}) {
    kill_one(delay);
    kept += whole();
    CHECK(run(trained.folder.path(), words).status == 0);
    CHECK(whole());
    CHECK_FALSE(fs::exists(trained.folder / "net/.unfinished_network"));
  }
  CHECK(kept >= 2);
}

}  // namespace composer::export_test
