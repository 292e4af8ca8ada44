// An export in use: predict --model and bench infer.
#include <catch2/catch.hpp>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "inference/onednn.h"
#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::predict_model_test {

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string recipe = R"(model: {resnet_cifar: {model_name: resnet_20, num_classes: 3}}
train_dataset: {image_folder: {datadir: pictures, crop_size: 24, resize_size: 28}}
val_dataset: {image_folder: {datadir: pictures, is_train: false, crop_size: 24, resize_size: 28}}
train_batch_size: 4
eval_batch_size: 4
max_duration: 1ep
optimizer: {sgd: {lr: 0.01}}
algorithms: {blurpool: {}, squeeze_excite: {latent_channels: 4, min_channels: 32}}
dataloader: {num_workers: 1}
device: cpu
run_name: run
)";

bool computes_bf16() { return find_operator<bool()>("mkldnn::_is_mkldnn_bf16_supported").call(); }

/// A trained network in the folder "net", and the pictures it was trained on.
struct Exported {
  Exported() {
    for (int i = 0; i < 12; ++i) {
      const auto name = std::string(1, static_cast<char>('a' + i % 3));
      fs::create_directories(folder / "pictures" / name);
      std::ofstream file(folder / "pictures" / name / (std::to_string(i) + ".ppm"),
                         std::ios::binary);
      file << "P6 32 30 255\n";
      for (int byte = 0; byte < 3 * 32 * 30; ++byte)
        file << static_cast<char>(60 * (i % 3) + byte * (i + 1) % 50);
    }
    folder.write("r.yaml", recipe);
    for (const std::string words :
         {"train -f r.yaml",
          "export runs/run/checkpoints/latest --format safetensors --output net"}) {
      const auto done = of(words);
      INFO(done.errors);
      REQUIRE(done.status == 0);
    }
  }
  Outcome of(const std::string& words) const { return run(folder.path(), split(words)); }
  std::vector<json> lines_of(const std::string& words) const {
    const auto outcome = of(words);
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    std::vector<json> lines;
    std::istringstream text(outcome.output);
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("predict --model says what predict --load_path says", "[cli][use][train][slow]") {
  const Exported exported;
  const std::string what = " --source pictures --top_k 2 --logits";
  const auto trained = exported.lines_of("predict --load_path runs/run/checkpoints/latest" + what);
  fs::remove_all(exported.folder / "runs");
  REQUIRE(trained.size() == 12);
  for (const std::string words : {"", " --batch_size 5 --num_workers 0", " --precision bf16"}) {
    CAPTURE(words);
    if (words.ends_with("bf16") && !computes_bf16()) {
      const auto refused = exported.of("predict --model net" + what + words);
      CHECK(refused.status == 2);
      CHECK_THAT(refused.errors, Contains("bf16: this processor has no instructions for it"));
      continue;
    }
    const auto lines = exported.lines_of("predict --model net" + what + words);
    REQUIRE(lines.size() == trained.size());
    const double margin = words.ends_with("bf16") ? 0.1 : 1e-4;
    for (size_t i = 0; i < lines.size(); ++i) {
      CHECK(lines[i].at("source") == trained[i].at("source"));
      CHECK(lines[i].at("class_names").size() == 2);
      for (size_t c = 0; c < 3; ++c)
        CHECK(lines[i].at("logits")[c].get<double>() ==
              Approx(trained[i].at("logits")[c].get<double>()).margin(margin));
    }
  }

  std::ofstream(exported.folder / "pictures/b/bad.ppm") << "no image";
  const auto failed = exported.of("predict --model net --source pictures");
  CHECK(failed.status == 1);
  CHECK_THAT(failed.errors, Contains("bad.ppm"));
  const auto skipped =
      exported.of("predict --model net --source pictures --on_bad_sample skip --batch_size 4");
  INFO(skipped.errors);
  CHECK(skipped.status == 0);
  CHECK_THAT(skipped.errors, Contains("bad.ppm"));
  CHECK(std::ranges::count(skipped.output, '\n') == 12);
}

TEST_CASE("predict names each image that cannot be read, and goes on where that is asked for",
          "[cli][use][train][slow]") {
  const Exported exported;
  const auto bad = [&](const fs::path& file) {
    fs::create_directories((exported.folder / file).parent_path());
    std::ofstream(exported.folder / file) << "no image";
  };
  const auto put_good = [&](const fs::path& file) {
    fs::create_directories((exported.folder / file).parent_path());
    fs::copy_file(exported.folder / "pictures/a/0.ppm", exported.folder / file);
  };
  for (int i = 10; i < 35; ++i) bad("mixed/" + std::to_string(i) + ".ppm");
  put_good("mixed/09.ppm"), put_good("mixed/99.ppm");
  bad("none/a.ppm"), bad("none/b.ppm");
  const std::string by_recipe = "predict --load_path runs/run/checkpoints/latest ";
  const std::string by_model = "predict --model net ";
  for (const auto& predict : {by_model, by_recipe}) {
    CAPTURE(predict);
    const std::string small = predict == by_recipe ? " --eval_batch_size 4" : " --batch_size 4";
    const auto mixed =
        exported.of(predict + "--source mixed --on_bad_sample skip --num_workers 2" + small);
    INFO(mixed.errors);
    CHECK(mixed.status == 0);
    CHECK(std::ranges::count(mixed.output, '\n') == 2);
    for (int i = 10; i < 35; ++i)
      CHECK_THAT(mixed.errors, Contains("skipped: mixed/" + std::to_string(i) + ".ppm: "));
    CHECK_THAT(mixed.errors, Contains("25 of 27 samples were skipped"));
    const auto none = exported.of(predict + "--source none --on_bad_sample skip");
    CHECK(none.status == 1);
    CHECK_THAT(none.errors, Contains("none/a.ppm") && Contains("none/b.ppm") &&
                                Contains("not one of 2 samples can be read"));
    const auto stopped = exported.of(predict + "--source none/a.ppm");
    CHECK(stopped.status == 1);
    CHECK_THAT(stopped.errors, Contains("none/a.ppm: ") && Contains("--on_bad_sample skip") &&
                                   !Contains("--dataloader"));
  }
  fs::create_directories(exported.folder / "empty");
  const auto empty = exported.of("predict --model net --source empty --on_bad_sample skip");
  CHECK(empty.status == 2);
  CHECK_THAT(empty.errors, Contains("--source: ") && Contains("empty"));

  REQUIRE(exported
              .of("data write --format image_folder --source pictures --output p.beton "
                  "--write_mode jpg")
              .status == 0);
  std::fstream file(exported.folder / "p.beton", std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto second = bytes.find("\xff\xd8\xff", bytes.find("\xff\xd8\xff") + 3);
  REQUIRE(second != std::string::npos);
  file.seekp(static_cast<std::streamoff>(second));
  file.write("none", 4);
  file.close();
  const auto rows = exported.of("predict --model net --source p.beton --on_bad_sample skip");
  INFO(rows.errors);
  CHECK(rows.status == 0);
  CHECK(std::ranges::count(rows.output, '\n') == 11);
  CHECK_THAT(rows.errors,
             Contains("skipped: p.beton, sample 1: ") && Contains("1 of 12 samples was skipped"));
}

TEST_CASE("bench infer measures an export, and what names none is refused",
          "[cli][use][train][slow]") {
  const Exported exported;
  const auto lines =
      exported.lines_of("bench infer --model net --batch_size 2 --seconds 0.01 --threads 1 --json");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].at("batch_size") == 2);
  CHECK(lines[0].at("threads") == 1);
  CHECK(lines[0].at("precision") == "fp32");
  CHECK(lines[0].at("resolution") == json({24, 24}));
  CHECK(lines[0].at("calls") >= 10);
  CHECK(lines[0].at("images_per_s") > 0);
  CHECK(lines[0].at("p99_ms") >= lines[0].at("p50_ms"));
  CHECK_THAT(
      exported.of("bench infer --model net --seconds 0.01").output,
      Catch::Matchers::Matches("net, batch 1, 24 x 24, fp32, \\d+ threads: \\d+\\.\\d images/s, "
                               "p50 \\d+\\.\\d\\d ms, p99 \\d+\\.\\d\\d ms\n"));

  for (const std::string words :
       {"predict --model nowhere --source pictures", "bench infer --model nowhere"})
    CHECK_THAT(exported.of(words).errors, Contains("nowhere"));
  const auto fp8 = exported.of("predict --model net --source pictures --precision fp8");
  CHECK(fp8.status == 2);
  CHECK_THAT(fp8.errors, Contains("--precision"));
  CHECK_THAT(exported.of("predict --help").output, Contains("--model"));
  const std::pair<std::string, std::string> wrong[] = {
      {"bench infer --model net --batch_size 0", "--batch_size: must be a number above 0, not 0"},
      {"predict --model net --source pictures --num_workers -1", "must be a number of at least 0"},
      {"predict --model net --load_path net --source pictures", "--model: net cannot stand beside"},
      {"predict --model net/network.json --source pictures", "is a file, and no folder"},
      {"export r.yaml --format onnx --output x.onnx", "r.yaml: is no checkpoint"},
  };
  for (const auto& [words, message] : wrong) {
    const auto outcome = exported.of(words);
    CAPTURE(words);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(message));
  }
}

}  // namespace composer::predict_model_test
