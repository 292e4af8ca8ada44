// What is easily forgotten when a part is added (docs/developing): each failure says what.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "composer/options.h"
#include "data/formats/decode.h"
#include "everything.h"

using namespace composer;

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

const fs::path root = SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.is_open());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Files below the folder of the repository whose names end so, by their paths within it, sorted.
Names files_below(const fs::path& folder, const std::string& ending) {
  Names files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder))
    if (entry.path().string().ends_with(ending))
      files.push_back(fs::relative(entry.path(), root / folder).string());
  std::sort(files.begin(), files.end());
  return files;
}

bool has_file(const fs::path& folder, const std::string& name) {
  const auto files = files_below(folder, name);
  return std::any_of(files.begin(), files.end(),
                     [&](const auto& file) { return fs::path(file).filename() == name; });
}

/// All pages for users in one.
std::string pages() {
  std::string text;
  for (const auto& file : files_below("docs", ".md"))
    if (!file.starts_with("developing/")) text += text_of(root / "docs" / file);
  return text;
}

/// Of the page on algorithms: from the heading of this name to the next one.
std::string section(const std::string& name) {
  const auto page = text_of(root / "docs/algorithms.md");
  const auto begin = page.find("\n### " + name + "\n");
  if (begin == std::string::npos) return "";
  return page.substr(begin, page.find("\n##", begin + 4) - begin);
}

}  // namespace

TEST_CASE("every source and every test is compiled", "[house]") {
  for (const std::string folder : {"composer", "algorithms", "models", "data", "cli"}) {
    const auto list = text_of(root / folder / "CMakeLists.txt");
    for (const auto& file : files_below(folder, ".cpp")) {
      INFO(folder << "/CMakeLists.txt does not name " << file);
      CHECK(list.find(file) != std::string::npos);
    }
  }
  const auto list = text_of(root / "tests/CMakeLists.txt");
  for (const auto& file : files_below("tests", "_test.cpp")) {
    INFO("tests/CMakeLists.txt does not name tests/" << file);
    CHECK(list.find("\n  " + file.substr(file.find('/') + 1) + "\n") != std::string::npos);
  }
}

TEST_CASE("every header of a method is registered", "[house]") {
  const auto all = text_of(root / "algorithms/all.cpp");
  for (const auto& file : files_below("algorithms", ".h")) {
    if (file == "all.h" || file.find('/') != std::string::npos) continue;
    INFO("algorithms/all.cpp does not include or add algorithms/" << file);
    CHECK(all.find("\"algorithms/" + file + "\"") != std::string::npos);
    CHECK(everything().algorithms.contains(fs::path(file).stem().string()));
  }
}

TEST_CASE("every algorithm has its files, a test, and a section that names its hyperparameters",
          "[house]") {
  for (const auto& name : everything().algorithms.names()) {
    INFO(name);
    CHECK(has_file("algorithms", name + ".h"));
    CHECK(has_file("algorithms", name + ".cpp"));
    CHECK(has_file("tests/algorithms", name + "_test.cpp"));
    const auto text = section(name);
    CHECK_FALSE(text.empty());
    const auto component = everything().algorithms.make(name);
    for (const auto& field : describe(component->fields())) {
      INFO("docs/algorithms.md, " << name << ": the section does not name `" << field.name << "`");
      CHECK(text.find("`" + field.name) != std::string::npos);
    }
  }
}

TEST_CASE("every model has a recipe", "[house]") {
  std::string recipes;
  for (const auto& file : files_below("yamls", ".yaml")) recipes += text_of(root / "yamls" / file);
  for (const auto& name : everything().models.names()) {
    INFO("no recipe in yamls/ has the model " << name);
    CHECK(recipes.find(name + ":") != std::string::npos);
  }
}

TEST_CASE("every component and every key of a run stands in the pages for users", "[house]") {
  const auto text = pages();
  for (const CatalogBase* catalog : everything().catalogs())
    for (const std::string& name : catalog->names()) {
      if (catalog->kind() == "model") continue;
      INFO("no page in docs/ names the " << catalog->kind() << " `" << name << "`");
      CHECK((text.find("`" + name) != std::string::npos || !section(name).empty()));
    }
  std::istringstream formats(
      std::regex_replace(std::string(kImageFormats), std::regex(", | and "), " "));
  for (std::string format; formats >> format;) {
    INFO("docs/data.md has no row for " << format);
    CHECK(text.find("\n| " + format + " |") != std::string::npos);
  }
  TrainerOptions options;
  const auto keys = text_of(root / "docs/recipes.md");
  for (const auto& field : describe(collect(options))) {
    INFO("docs/recipes.md does not name the key `" << field.name << "`");
    CHECK(keys.find("`" + field.name) != std::string::npos);
  }
}
