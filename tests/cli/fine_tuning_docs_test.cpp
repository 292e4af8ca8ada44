// Runs the commands of docs/fine_tuning.md.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "composer/checkpoint/weights.h"
#include "models/resnet.h"
#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::fine_tuning_docs_test {

namespace fs = std::filesystem;

namespace {

/// The lines of the page that begin with "composer ", with what follows a backslash.
std::vector<std::string> commands_of(const fs::path& page) {
  std::ifstream file(page);
  std::vector<std::string> commands;
  bool goes_on = false;
  for (std::string line; std::getline(file, line);) {
    if (!goes_on && !line.starts_with("composer ")) continue;
    if (!goes_on) commands.emplace_back();
    goes_on = line.ends_with('\\');
    if (goes_on) line.pop_back();
    commands.back() += line + ' ';
  }
  return commands;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void write_pets(const fs::path& folder) {
  for (const char* name : {"cat", "dog"}) {
    fs::create_directories(folder / name);
    for (int i = 0; i < 20; ++i) {
      std::ofstream file(folder / name / (std::to_string(i) + ".ppm"), std::ios::binary);
      file << "P6 64 64 255\n";
      for (int p = 0; p < 64 * 64; ++p)
        file << static_cast<char>(name[0] == 'c' ? 30 : 200) << static_cast<char>(p % 100 + i)
             << static_cast<char>(p / 64);
    }
  }
}

}  // namespace

TEST_CASE("the commands of the page on fine-tuning do what it says", "[cli][docs][slow]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  fs::create_directory_symlink(folder / "pets", folder / "photos");
  std::string labels = "image,label\n";
  for (const std::string name : {"cat", "dog"})
    for (int i = 0; i < 20; ++i) labels += name + "/" + std::to_string(i) + "," + name + "\n";
  folder.write("labels.csv", labels);
  ResNet::Params params;
  params.model_name = "resnet18";
  write_safetensors(folder / "resnet18.safetensors", model_tensors(ResNet(params)));

  const auto commands = commands_of(fs::path(SOURCE_DIR) / "docs/fine_tuning.md");
  REQUIRE(commands.size() == 9);
  std::vector<Outcome> outcomes;
  for (auto command : commands) {
    replace(command, "resnet18.pth", "resnet18.safetensors");
    replace(command, "'", "");
    if (command.find(" train ") != std::string::npos)
      command += "--max_duration 2ep --device cpu --dataloader.num_workers 1";
    auto words = split(command);
    words.erase(words.begin());
    INFO(command);
    outcomes.push_back(run(folder.path(), words));
    INFO(outcomes.back().errors);
    REQUIRE(outcomes.back().status == 0);
  }
  CHECK_THAT(outcomes[0].output, Catch::Contains("2 classes") && Catch::Contains("20  dog"));
  CHECK_THAT(outcomes[1].errors, Catch::Contains("auto: train_batch_size: 8, for 32 images"));
  CHECK_THAT(outcomes[2].output, Catch::Contains("auto: model.resnet.num_classes: 2"));
  CHECK_THAT(outcomes[3].errors, Catch::Contains("stays fresh: fc.bias, fc.weight"));
  CHECK(nlohmann::json::parse(outcomes[6].output).at("per_class").contains("dog"));
  std::istringstream lines(outcomes[7].output);
  int64_t predicted = 0;
  for (std::string line; std::getline(lines, line); ++predicted)
    CHECK(nlohmann::json::parse(line).at("class_names").size() == 1);
  CHECK(predicted == 20);

  const auto& head =
      read_safetensors(folder / "runs/pets_head/checkpoints/best/model-00001-of-00001.safetensors");
  const auto given = read_safetensors(folder / "resnet18.safetensors");
  for (const char* kept : {"conv1.weight", "bn1.running_mean", "layer4.1.bn2.running_var"})
    CHECK(at::equal(head.at(kept), given.at(kept)));
}

}  // namespace composer::fine_tuning_docs_test
