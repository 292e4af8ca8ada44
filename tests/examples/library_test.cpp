// The examples of programs that use the library without the command line.
#include <catch2/catch.hpp>

#include "example.h"

namespace composer::library_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// The number after `name` in a program's output.
double value_of(const std::string& output, const std::string& name) {
  const auto found = output.find(name + " ");
  REQUIRE(found != std::string::npos);
  return std::stod(output.substr(found + name.size() + 1));
}

}  // namespace

TEST_CASE("library/recipe: a recipe in C++ leaves what one from a file does", "[examples][slow]") {
  const TemporaryFolder folder;
  const auto trained = run_example("recipe", folder, {"."});
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.output, Contains("completed"));
  const auto run_folder = folder / "from_cpp";
  const auto recipe = text_of(run_folder / "hparams.yaml");
  CHECK_THAT(recipe, Contains("smoothing: 0.05"));
  CHECK_THAT(recipe, Contains("blurpool:"));

  const auto evaluated = run(folder.path(), split("eval --load_path from_cpp/checkpoints/latest"));
  INFO(evaluated.errors);
  REQUIRE(evaluated.status == 0);
  const std::string name = "metrics/eval/CrossEntropy";
  const double there = json_of(run_folder / "summary.json")["metrics"][name];
  CHECK(nlohmann::json::parse(evaluated.output)[name].get<double>() == Approx(there));

  // library/infer: its export runs without the trainer.
  REQUIRE(run(folder.path(), split("export from_cpp/checkpoints/latest --format safetensors "
                                   "--output net"))
              .status == 0);
  std::vector<std::string> files;
  for (int i = 0; i < 3; ++i) {
    files.push_back(std::to_string(i) + ".ppm");
    std::string ppm = "P6 40 36 255\n";
    for (int p = 0; p < 40 * 36 * 3; ++p) ppm += static_cast<char>(p * (i + 31) % 251);
    folder.write(files.back(), ppm);
  }
  const auto inferred = run_example("infer", folder, std::vector<std::string>{"net"} + files);
  INFO(inferred.errors);
  REQUIRE(inferred.status == 0);
  const auto lines = lines_of(inferred.output);
  REQUIRE(lines.size() == files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const auto predicted =
        run(folder.path(), split("predict --precision fp32 --top_k 1 --load_path "
                                 "from_cpp/checkpoints/latest --source " +
                                 files[i]));
    INFO(predicted.errors);
    const auto best = nlohmann::json::parse(predicted.output).at("class_names").at(0);
    CHECK(lines[i] == files[i] + " " + best.get<std::string>());
  }
  CHECK_THAT(run_example("infer", folder, {"by_no_name", "0.ppm"}).errors,
             Contains("by_no_name: there is no such folder"));
}

TEST_CASE("library/trainer: a run without a recipe; library/use_checkpoint evaluates it",
          "[examples]") {
  const TemporaryFolder folder;
  const auto trained = run_example("trainer", folder, {"."});
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.output, Contains("completed after 8 batches"));
  const auto run_folder = folder / "by_hand";
  CHECK(fs::exists(run_folder / "metrics.jsonl"));
  CHECK_FALSE(fs::exists(run_folder / "hparams.yaml"));
  const std::string latest = "by_hand/checkpoints/latest";
  CHECK(json_of(folder / (latest + "/manifest.json"))["recipe"] == "");
  const auto info = run(folder.path(), split("checkpoint info " + latest));
  CHECK_THAT(info.output, Contains("recipe: none: made from C++; eval and predict need -f"));

  const auto evaluated = run(folder.path(), split("eval --load_path " + latest));
  CHECK(evaluated.status == 2);
  CHECK_THAT(evaluated.errors, Contains("was made from C++ without a recipe"));

  std::string ppm = "P6 32 32 255\n";
  for (int i = 0; i < 32 * 32 * 3; ++i) ppm += static_cast<char>(i * 37);
  folder.write("a.ppm", ppm);
  const auto used = run_example("use_checkpoint", folder, {latest, "a.ppm"});
  INFO(used.errors);
  REQUIRE(used.status == 0);
  CHECK_THAT(used.output, Contains("epoch 2, batch 8, "));
  CHECK_THAT(used.output, Contains("fc.weight [10, 64]"));
  CHECK_THAT(used.output, Contains("a.ppm "));
  const std::string name = "metrics/eval/CrossEntropy";
  const double there = json_of(run_folder / "summary.json")["metrics"][name];
  CHECK(value_of(used.output, "CrossEntropy") == Approx(there).epsilon(1e-3));
  CHECK(value_of(trained.output, "CrossEntropy") == Approx(there).epsilon(1e-3));
}

TEST_CASE("library/own_loop: function forms train a network that composer evaluates",
          "[examples][slow]") {
  const TemporaryFolder folder;
  const auto trained = run_example("own_loop", folder, {"own.safetensors"});
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.output, Contains("BlurConv2d"));
  std::vector<double> losses;
  for (const auto& line : lines_of(trained.output))
    if (line.starts_with("loss ")) losses.push_back(std::stod(line.substr(5)));
  REQUIRE(losses.size() == 8);
  CHECK(losses.back() < losses.front());

  const auto evaluated = run(
      folder.path(), split("eval -f quickstart --algorithms blurpool --precision fp32 --device cpu "
                           "--val_dataset.shapes.samples 128 --load_path own.safetensors"));
  INFO(evaluated.errors);
  REQUIRE(evaluated.status == 0);
  const std::string name = "metrics/eval/CrossEntropy";
  CHECK(nlohmann::json::parse(evaluated.output)[name].get<double>() ==
        Approx(value_of(trained.output, "CrossEntropy")).epsilon(1e-3));
}

}  // namespace composer::library_test
