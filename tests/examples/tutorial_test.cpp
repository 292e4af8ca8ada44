// docs/tutorial.md: what a newcomer types, typed.
#include <catch2/catch.hpp>

#include "example.h"

using namespace composer;
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

}  // namespace

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
