// What is easily forgotten when a part is added (docs/developing): each failure says what.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/declarations.h"
#include "composer/loop/event.h"
#include "composer/recipe/options.h"
#include "data/formats/decode.h"
#include "everything.h"

namespace composer::house_test {

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

/// A page without its blocks of code.
std::string prose(const std::string& page) {
  return std::regex_replace(page, std::regex("\n```[^`]*\n```"), "\n");
}

/// Whether a page has a heading with the anchor that GitHub makes of it.
bool has_heading(const std::string& page, const std::string& anchor) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) continue;
    std::string made;
    for (const char c : line.substr(std::min(line.find(' '), line.size() - 1) + 1))
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-')
        made += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      else if (c == ' ')
        made += '-';
    if (made == anchor) return true;
  }
  return false;
}

/// Of a row of a table; empty for other lines.
std::string second_cell(const std::string& line) {
  if (!line.starts_with("| ")) return "";
  const size_t begin = line.find('|', 1), end = line.find('|', begin + 1);
  return end == std::string::npos ? "" : line.substr(begin + 1, end - begin - 1);
}

void add_names(const FieldSet& set, const std::string& path, std::set<std::string>& names) {
  for (const Field& field : set.fields) {
    const std::string key = join_path(path, field.name);
    for (size_t dot = 0; dot != std::string::npos; dot = key.find('.', dot + 1))
      names.insert(key.substr(dot == 0 ? 0 : dot + 1));
    add_names(field.nested, key, names);
  }
}

/// Keys by every ending, components, events, subcommands and their options.
std::set<std::string> words_of_the_program() {
  std::set<std::string> names{"composer", "f", "bench"};
  TrainerOptions options;
  add_names(collect(options), "", names);
  for (const auto& choice : choice_facts) names.emplace(choice.key);
  names.emplace(evaluators_key);
  for (const CatalogBase* catalog : everything().catalogs())
    for (const auto& name : catalog->names()) {
      names.insert(name);
      add_names(catalog->find(name)->fields(), "", names);
    }
#define X(event, kind) names.insert(#event);
  COMPOSER_EVENTS(X)
#undef X
  for (const auto& [name, command] : command_table())
    for (const auto& doc : declarations_of(command)) {
      names.insert(name);
      names.insert(doc.name.substr(doc.name.find(' ') + 1));
      for (const auto& option : doc.options) {
        names.insert(option.choices.begin(), option.choices.end());
        for (const auto& word : option.names)
          names.insert(word.substr(word.find_first_not_of('-')));
      }
    }
  return names;
}

/// Of members, not of the function.
int calls_of_dump(const std::string& text) {
  int calls = 0;
  for (size_t at = text.find("dump("); at != text.npos; at = text.find("dump(", at + 1))
    if (at > 0 && (text[at - 1] == '.' || text[at - 1] == '>')) ++calls;
  return calls;
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
  // models/CMakeLists.txt finds its sources by itself.
  for (const std::string folder : {"base", "nn", "composer", "algorithms", "data", "cli"}) {
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

TEST_CASE("JSON that others wrote is shown by shown_value", "[house]") {
  // Calls of dump(), which calls itself for what lies within: each writes what the program made, or
  // what parse_foreign gave.
  const std::map<std::string, int> writers{{"analysis/line_chart.cpp", 2},
                                           {"analysis/markup.cpp", 1},
                                           {"analysis/trace/device_counters.cpp", 1},
                                           {"cli/arguments.cpp", 1},
                                           {"cli/data.cpp", 1},
                                           {"cli/doctor.cpp", 1},
                                           {"cli/quantize.cpp", 1},
                                           {"cli/reference.cpp", 1},
                                           {"cli/study_folder.cpp", 2},
                                           {"composer/callbacks/evaluation_recorder.cpp", 1},
                                           {"composer/logging/command_log.cpp", 1},
                                           {"composer/logging/sinks.cpp", 4},
                                           {"composer/run/run_description.cpp", 1},
                                           {"composer/checkpoint/checkpoint.cpp", 2},
                                           {"composer/checkpoint/checkpoint_writer.cpp", 2},
                                           {"composer/checkpoint/dcp.cpp", 2},
                                           {"base/params/foreign_json.cpp", 1},
                                           {"base/files/mailbox.cpp", 1},
                                           {"composer/checkpoint/checkpoint_folder.cpp", 1},
                                           {"base/files/run_folder.cpp", 1},
                                           {"composer/checkpoint/safetensors.cpp", 1},
                                           {"composer/checkpoint/weights.cpp", 1},
                                           {"data/beton/fields.cpp", 1},
                                           {"data/samples/list_file.cpp", 1},
                                           {"inference/description.cpp", 1},
                                           {"inference/graph/json_location.cpp", 1}};
  for (const std::string folder : {"algorithms", "analysis", "base", "cli", "composer", "data",
                                   "inference", "models", "nn", "scale"})
    for (const auto& name : files_below(folder, ".cpp")) {
      const auto file = folder + "/" + name;
      const auto text = text_of(root / file);
      const auto known = writers.find(file);
      INFO(file << ": what was read is shown by shown_value (base/params/foreign_json.h); "
                   "what writes JSON of the program's own stands in the list of this test");
      CHECK(calls_of_dump(text) == (known == writers.end() ? 0 : known->second));
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

TEST_CASE("every image format stands in the page on data", "[house]") {
  const auto text = text_of(root / "docs/data.md");
  std::istringstream formats(
      std::regex_replace(std::string(kImageFormats), std::regex(", | and "), " "));
  for (std::string format; formats >> format;) {
    INFO("docs/data.md has no row for " << format);
    CHECK(text.find("\n| " + format + " |") != std::string::npos);
  }
}

TEST_CASE("every page stands in the index of pages", "[house]") {
  const auto index = text_of(root / "docs/README.md");
  for (const auto& page : files_below("docs", ".md")) {
    INFO("docs/README.md does not name " << page);
    CHECK((page == "README.md" || index.find("](" + page + ")") != std::string::npos));
  }
}

TEST_CASE("links of pages lead to files and headings", "[house]") {
  const std::regex link(R"(\]\(([^)#]*)(?:#([^)]*))?\))");
  Names pages{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"};
  for (const auto& page : files_below("docs", ".md")) pages.push_back("docs/" + page);
  for (const auto& page : pages) {
    const auto text = prose(text_of(root / page));
    for (std::sregex_iterator each(text.begin(), text.end(), link), end; each != end; ++each) {
      const std::string target = (*each)[1], heading = (*each)[2];
      if (target.find("://") != std::string::npos) continue;
      const auto file = target.empty() ? root / page : root / fs::path(page).parent_path() / target;
      INFO(page << " links to " << each->str());
      REQUIRE(fs::exists(file));
      if (!heading.empty()) CHECK(has_heading(text_of(file), heading));
    }
  }
}

TEST_CASE("every file that the page on how it works names is there", "[house]") {
  const auto page = text_of(root / "docs/developing/how_it_works.md");
  const std::regex path(R"([a-z]+(/\w+)+\.(h|cpp|cu|md))");
  int files = 0;
  for (std::sregex_iterator each(page.begin(), page.end(), path), end; each != end; ++each) {
    INFO("docs/developing/how_it_works.md names " << each->str());
    CHECK(fs::exists(root / each->str()));
    ++files;
  }
  CHECK(files > 30);
}

TEST_CASE("what other frameworks' words are here are words of the program", "[house]") {
  const auto known = words_of_the_program();
  int names = 0;
  for (const auto& page : files_below("docs/coming_from", ".md")) {
    std::istringstream lines(text_of(root / "docs/coming_from" / page));
    for (std::string line; std::getline(lines, line);) {
      const std::regex code("`([^`]+)`");
      const std::string here = second_cell(line);
      for (std::sregex_iterator each(here.begin(), here.end(), code), end; each != end; ++each) {
        std::istringstream words(std::regex_replace((*each)[1].str(), std::regex(":.*"), ""));
        for (std::string word; words >> word; ++names) {
          INFO("docs/coming_from/" << page << ": " << each->str());
          CHECK(known.contains(word.substr(std::min(word.find_first_not_of('-'), word.size()))));
        }
      }
    }
  }
  CHECK(names > 150);
}

}  // namespace composer::house_test
