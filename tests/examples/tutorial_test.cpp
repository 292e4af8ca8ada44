// docs/tutorial.md: what a newcomer types, typed.
#include <catch2/catch.hpp>
#include <set>

#include "example.h"

namespace composer::tutorial_test {

namespace fs = std::filesystem;

namespace {

struct Block {
  std::string kind;  ///< what follows the fence: "sh", "sh refused", "cpp fade/fade.cpp"
  std::vector<std::string> lines;
};

std::vector<Block> blocks_of(const fs::path& page) {
  std::vector<Block> blocks;
  bool inside = false;
  for (const auto& line : lines_of(text_of(page))) {
    if (!line.starts_with("```")) {
      if (inside) blocks.back().lines.push_back(line);
      continue;
    }
    inside = !inside;
    if (inside) blocks.push_back({line.substr(3), {}});
  }
  CHECK_FALSE(inside);
  return blocks;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// The quickstart and recipes made from it, in seconds.
std::string in_small(std::string command) {
  replace(command, "build/release", BUILD);
  const bool trains = command.find(" train ") != std::string::npos;
  const bool has_recipe = command.find(" -f ") != std::string::npos;
  const bool looks = command.find("--plan") != std::string::npos;
  if (!trains || looks) return command;
  std::string options =
      " --device cpu --precision fp32 --progress_bar false --dataloader.num_workers 1";
  if (!has_recipe)
    options +=
        " --train_dataset.shapes.samples 64 --train_dataset.shapes.size 16 --max_duration 2ep "
        "--val_dataset.shapes.samples 64 --val_dataset.shapes.size 16 --train_batch_size 32 "
        "--eval_batch_size 64";
  const size_t at = std::min(command.find(" >"), command.size());
  return command.insert(at, options);
}

int status_of(const TemporaryFolder& folder, const std::string& command) {
  const auto script = folder.write(
      "command.sh", "export CMAKE_GENERATOR=Ninja PATH=" BUILD "/bin:$PATH\n" + command + "\n");
  const auto outcome = run(folder.path(), {script.string()}, "/bin/bash");
  UNSCOPED_INFO(command << "\n" << outcome.output << outcome.errors);
  return outcome.status;
}

/// The commands of a page that train by a recipe that comes with the program, a line each, without
/// what is said behind them.
std::vector<std::string> trainings_of(const fs::path& page) {
  std::vector<std::string> commands;
  std::string command;
  for (const auto& block : blocks_of(page))
    for (auto line : block.lines) {
      if (command.empty() && !line.starts_with("composer train -f ")) continue;
      line.erase(0, line.find_first_not_of(' '));
      const bool goes_on = line.ends_with('\\');
      command += goes_on ? line.substr(0, line.size() - 1) : line.substr(0, line.find("  "));
      if (goes_on) continue;
      command = command.substr(0, std::min(command.find(" #"), command.find(" >")));
      const auto has = [&](const char* part) { return command.find(part) != std::string::npos; };
      // Recipes and weights of the reader's own, the latter in a test of that page.
      if (!has(".yaml") && !has("finetune") && !has("...")) commands.push_back(command);
      command.clear();
    }
  return commands;
}

}  // namespace

TEST_CASE("trainings that README and pages show are what recipes understand",
          "[examples][docs][slow]") {
  const TemporaryFolder folder;
  std::set<fs::path> pages{fs::path(SOURCE_DIR) / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SOURCE_DIR) / "docs"))
    if (entry.path().extension() == ".md") pages.insert(entry.path());
  int commands = 0;
  for (const auto& page : pages)
    for (const auto& command : trainings_of(page)) {
      INFO(page.string());
      CHECK(status_of(folder, command + " --dump") == 0);
      ++commands;
    }
  CHECK(commands >= 14);
}

TEST_CASE("the tutorial's commands do what it says, and its code compiles",
          "[examples][docs][slow]") {
  const TemporaryFolder folder;
  setenv("OMP_NUM_THREADS", "1", 1);
  int commands = 0;
  for (const auto& [kind, lines] : blocks_of(fs::path(SOURCE_DIR) / "docs/tutorial.md")) {
    const size_t space = kind.find(' ');
    if (kind.starts_with("sh")) {
      for (const auto& line : lines) {
        CHECK(status_of(folder, in_small(line)) == (kind == "sh refused" ? 2 : 0));
        ++commands;
      }
    } else if (space != std::string::npos) {
      const auto path = folder / kind.substr(space + 1);
      fs::create_directories(path.parent_path());
      std::ofstream file(path);
      for (const auto& line : lines) file << line << '\n';
    }
  }
  CHECK(commands >= 20);
  CHECK(fs::exists(folder / "both.html"));
  CHECK(fs::exists(folder / "first.onnx"));
  CHECK(text_of(folder / "runs/faded/metrics.jsonl").find("\"fade/kept\"") != std::string::npos);
}

}  // namespace composer::tutorial_test
