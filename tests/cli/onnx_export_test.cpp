#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"
#include "tests/inference/onnx_reader.h"
#include "tests/python.h"
#include "tests/temporary_folder.h"

namespace composer::onnx_export_test {

using Catch::Matchers::Contains;

namespace {

const std::string recipe = R"(model: {mnist_classifier: }
train_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 8}}
optimizer: {sgd: {lr: 0.1}}
train_batch_size: 8
eval_batch_size: 8
max_duration: 1ep
device: cpu
run_name: run
)";

}  // namespace

TEST_CASE("composer export writes ONNX files, for images as numbers and as bytes",
          "[cli][export][train][slow]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  const auto of = [&](const std::string& words) { return run(folder.path(), split(words)); };
  REQUIRE(of("train -f r.yaml").status == 0);
  const std::string command = "export runs/run/checkpoints/latest --format onnx --output ";
  const auto plain = of(command + "net.onnx");
  INFO(plain.errors);
  REQUIRE(plain.status == 0);
  CHECK_THAT(plain.errors, Contains("to net.onnx"));
  using Shape = std::vector<std::string>;
  CHECK(test::read_onnx(folder / "net.onnx").inputs.at(0).shape == Shape{"N", "1", "28", "28"});
  REQUIRE(of(command + "bytes.onnx --preprocessing").status == 0);
  const auto bytes = test::read_onnx(folder / "bytes.onnx");
  CHECK(bytes.inputs.at(0).shape == Shape{"N", "28", "28", "1"});
  CHECK(bytes.outputs.at(0).shape == Shape{"N", "10"});
  CHECK_THAT(bytes.metadata.at("network.json"), Contains("mnist_classifier"));
  REQUIRE(of(command + "resize.onnx --preprocessing resize --probabilities").status == 0);
  const auto resize = test::read_onnx(folder / "resize.onnx");
  CHECK(resize.inputs.at(0).shape == Shape{"N", "H", "W", "1"});
  CHECK(resize.outputs.at(1).name == "probabilities");
  CHECK_THAT(of(command + "x.onnx --preprocessing whole").errors,
             Contains("--preprocessing: 'whole'"));
  const std::string other = "export runs/run/checkpoints/latest --output net.pt --format ";
  CHECK(of(other + "torchscript --preprocessing resize").status == 0);
  const auto portable = of(other + "torchscript --overwrite --preprocessing portable");
  CHECK(portable.status == 2);
  CHECK_THAT(portable.errors, Contains("portable is for --format onnx; take resize"));
  CHECK_THAT(of(command + "x.onnx --preprocessing=").errors, Contains("its word is empty"));
  const auto again = of(command + "net.onnx");
  CHECK(again.status == 2);
  CHECK_THAT(again.errors, Contains("--output: 'net.onnx' exists; --overwrite replaces it"));
  CHECK(of(command + "net.onnx --overwrite").status == 0);
  const auto elsewhere = of(command + "net.pt");
  CHECK(elsewhere.status == 2);
  CHECK_THAT(elsewhere.errors, Contains("net.pt must end in .onnx"));
}

TEST_CASE("the example of Python names a photograph's class as predict does",
          "[cli][export][train][slow][peer]") {
  const char* const python = std::getenv("COMPOSER_INFERENCE_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_INFERENCE_PYTHON names no Python with onnxruntime and pillow");
    return;
  }
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  std::string picture = "P5 61 40 255\n";
  for (int i = 0; i < 61 * 40; ++i) picture += static_cast<char>(i * i / 7 % 251);
  folder.write("a.pgm", picture);
  const auto of = [&](const std::string& words) { return run(folder.path(), split(words)); };
  REQUIRE(of("train -f r.yaml").status == 0);
  const std::string checkpoint = "runs/run/checkpoints/latest";
  REQUIRE(of("export " + checkpoint +
             " --format onnx --output net.onnx --preprocessing resize --probabilities")
              .status == 0);
  const auto picture_file = (folder / "a.pgm").string();
  std::istringstream found(test::output_of("examples/python/onnx_photo.py",
                                           (folder / "net.onnx").string() + " " + picture_file,
                                           python));
  std::string photo, name;
  found >> photo >> name;
  const auto line =
      nlohmann::json::parse(of("predict --load_path " + checkpoint + " --source a.pgm").output);
  CHECK(photo == picture_file);
  CHECK(name == (line.contains("class_names") ? line["class_names"][0].get<std::string>()
                                              : line["classes"][0].dump()));
}

}  // namespace composer::onnx_export_test
