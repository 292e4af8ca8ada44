// composer quantize: a checkpoint's network in 8 bits, with a report.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "inference/network_folder.h"
#include "inference/runtime.h"
#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::quantize_test {

using Catch::Matchers::Contains;

namespace {

const std::string recipe = R"(model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {cifar10: {use_synthetic: true, synthetic_num_unique_samples: 24}}
val_dataset: {cifar10: {use_synthetic: true, is_train: false, shuffle: false}}
optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
train_batch_size: 8
train_subset_num_batches: 3
eval_batch_size: 8
eval_subset_num_batches: 1
max_duration: 1ep
device: cpu
dataloader: {num_workers: 1}
)";

/// Records of CIFAR-10's binary version.
std::string records(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i % 10);
    for (int k = 0; k < 3072; ++k) bytes += static_cast<char>((k * (i + 3) + i * 31) % 251);
  }
  return bytes;
}

nlohmann::json json_in(const std::filesystem::path& path) {
  return nlohmann::json::parse(std::ifstream(path));
}

}  // namespace

TEST_CASE("quantize writes a network in 8 bits and tells what it costs",
          "[cli][quantization][train][slow]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  REQUIRE(run(folder.path(), split("train -f r.yaml --run_name run")).status == 0);
  std::filesystem::create_directories(folder / "data");
  folder.write("data/data_batch_1.bin", records(24));
  folder.write("data/test_batch.bin", records(20));
  std::filesystem::create_directories(folder / "loose");
  folder.write("loose/a.ppm", "P6 32 32 255\n" + records(1).substr(1));
  std::filesystem::create_directories(folder / "parts/train/a");
  std::filesystem::create_directories(folder / "others/bee");
  std::filesystem::copy(folder / "loose/a.ppm", folder / "others/bee");
  const std::string quantize = "quantize runs/run/checkpoints/latest --calibration data ";

  const auto whole = run(
      folder.path(), split(quantize + "--output q --evaluate data --keep fc --bias_correction"));
  INFO(whole.errors);
  REQUIRE(whole.status == 0);
  CHECK_THAT(whole.errors, Contains("fewer than 512") && Contains("SQNR dB") &&
                               Contains("Accuracy") && Contains("for --keep"));
  const auto report = json_in(folder / "q/quantization.json");
  CHECK(report.at("calibration").at("samples") == 24);
  CHECK(report.at("bias_correction") == true);
  CHECK(report.at("layers").back().at("layer") == "fc");
  CHECK(report.at("layers").back().at("type") == "float32");
  CHECK(report.at("layers")[3].at("type") == "int8");
  CHECK(report.at("layers")[3].at("sqnr_db").get<double>() > 10);
  CHECK(report.at("logits_sqnr_db").get<double>() > 10);
  const auto& before = report.at("evaluation").at("float32");
  const auto& after = report.at("evaluation").at("int8");
  CHECK_THAT(whole.errors, !Contains("than chance"));  // the data are known to be CIFAR-10's
  CHECK(after.at("CrossEntropy").get<double>() ==
        Approx(before.at("CrossEntropy").get<double>()).epsilon(0.05));
  const auto network = read_network(folder / "q");
  CHECK(network.quantization.weight_scales.size() + 1 == report.at("layers").size());
  CHECK(network.metrics.at("metrics/eval/CrossEntropy") ==
        Approx(after.at("CrossEntropy").get<double>()));

  // What the runtime computes of it is what was evaluated, but for codes at ties: other numbers of
  // images are other kernels.
  const auto bytes = records(20);
  auto labels = at::empty({20}, at::kLong);
  auto images = at::empty({20, 3, 32, 32}, at::kByte);
  for (int64_t i = 0; i < 20; ++i) {
    labels[i] = static_cast<uint8_t>(bytes[static_cast<size_t>(3073 * i)]);
    std::memcpy(images[i].data_ptr(), bytes.data() + 3073 * i + 1, 3072);
  }
  const auto logits = Runtime(network).logits(images.permute({0, 2, 3, 1}).contiguous());
  CHECK(after.at("CrossEntropy").get<double>() ==
        Approx(at::cross_entropy_loss(logits, labels).item<double>()).epsilon(1e-3));

  const auto exact =
      run(folder.path(), split(quantize + "--output exact --samples 8 --activation_bits 7 "
                                          "--evaluate data --max_drop 0"));
  INFO(exact.errors);
  REQUIRE(exact.status == 0);
  const auto second = json_in(folder / "exact/quantization.json");
  CHECK(second.at("activation_bits") == 7);
  CHECK(second.at("calibration").at("samples") == 8);
  const auto accuracy = [&](const char* type) {
    return second.at("evaluation").at(type).at("Accuracy").get<double>();
  };
  CHECK(accuracy("int8") >= accuracy("float32"));
  CHECK_THAT(exact.errors, Contains("--max_drop: with 0 layers in float32 the accuracy is ") &&
                               !Contains("logits' error"));

  const std::pair<std::string, std::string> wrong[] = {
      {"--output x --max_drop 0.1", "--max_drop: needs --evaluate"},
      {"--output x --keep layer1.0.conv3", "did you mean 'layer1.0.conv"},
      {"--output x --evaluate loose", "--evaluate: loose has images without labels"},
      {"--output x --evaluate others", "--evaluate: others has the classes bee; the network was"},
      {"--output x --evaluate nowhere", "--evaluate: there is no nowhere"},
      {"--output x --evaluate parts", "--evaluate: parts has train/ but no val/"},
      {"--output data", "holds other things than a network"},
      {"--output r.yaml/x", "--output: r.yaml/x cannot be made a folder: "},
  };
  for (const auto& [words, message] : wrong) {
    const auto outcome = run(folder.path(), split(quantize + words));
    CAPTURE(words);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(message));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
  REQUIRE(run(folder.path(), split("export runs/run/checkpoints/latest --format safetensors "
                                   "--output lost"))
              .status == 0);
  auto without_numbers = read_network(folder / "lost");
  for (auto& value : without_numbers.graph.values)
    if (value.name == "conv1.weight") value.constant = at::full_like(value.constant, NAN);
  write_network(folder / "lost", without_numbers);
  const auto lost = run(folder.path(), split("quantize lost --calibration data --output x/y"));
  CHECK(lost.status == 1);
  CHECK_THAT(lost.errors, Contains("has values that are not a number"));
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
  const auto no_images = run(folder.path(), split("quantize runs/run/checkpoints/latest "
                                                  "--calibration runs/run/checkpoints --output x"));
  CHECK(no_images.status == 2);
  CHECK_THAT(no_images.errors, Contains("--calibration: "));
  const auto loose = run(folder.path(), split("quantize runs/run/checkpoints/latest --calibration "
                                              "loose --samples 1 --output x"));
  INFO(loose.errors);
  CHECK(loose.status == 0);

  folder.write("loose/b.ppm", "no image");
  folder.write("loose/c.ppm", "P6 32 32 255\n" + records(1).substr(1));
  const std::string with_bad =
      "quantize runs/run/checkpoints/latest --calibration loose --output x";
  const auto stopped = run(folder.path(), split(with_bad));
  CHECK(stopped.status == 1);
  CHECK_THAT(stopped.errors, Contains("loose/b.ppm: ") && Contains("--on_bad_sample skip") &&
                                 !Contains("dataloader"));
  const auto skipped = run(folder.path(), split(with_bad + " --on_bad_sample skip"));
  INFO(skipped.errors);
  CHECK(skipped.status == 0);
  CHECK_THAT(skipped.errors,
             Contains("skipped: loose/b.ppm: ") && Contains("1 of 3 samples was skipped"));
  CHECK(json_in(folder / "x/quantization.json").at("calibration").at("samples") == 2);
}

}  // namespace composer::quantize_test
