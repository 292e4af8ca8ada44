// The code of docs/library.md stands in the examples, which are compiled and run.
#include <catch2/catch.hpp>

#include "example.h"

namespace composer::documentation_test {

namespace fs = std::filesystem;

namespace {

/// The lines without their indentation, each ended.
std::string flat(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines)
    text += line.substr(std::min(line.find_first_not_of(' '), line.size())) + '\n';
  return text;
}

}  // namespace

TEST_CASE("every block of code on docs/library.md stands in an example", "[examples]") {
  const fs::path root = SOURCE_DIR;
  std::vector<std::string> sources;
  for (const auto& entry : fs::recursive_directory_iterator(root / "examples"))
    if (entry.is_regular_file()) sources.push_back('\n' + flat(lines_of(text_of(entry.path()))));

  int blocks = 0;
  bool inside = false;
  std::vector<std::string> block;
  for (const auto& line : lines_of(text_of(root / "docs/library.md"))) {
    if (!line.starts_with("```")) {
      if (inside) block.push_back(line);
      continue;
    }
    if (std::exchange(inside, !inside)) {
      INFO(flat(block));
      CHECK(std::any_of(sources.begin(), sources.end(), [&](const std::string& source) {
        return source.find('\n' + flat(block)) != std::string::npos;
      }));
      ++blocks;
    }
    block.clear();
  }
  CHECK_FALSE(inside);
  CHECK(blocks >= 10);
}

}  // namespace composer::documentation_test
