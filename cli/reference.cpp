// The subcommands list, describe, reference and schema: what recipes and command lines can name.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/declarations.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "composer/recipe/automatic.h"
#include "composer/recipe/options.h"
#include "composer/recipe/recipe.h"
#include "composer/recipe/registry.h"
#include "composer/recipe/schema.h"

namespace composer {
namespace {

/// The algorithms that exclude this one or that it excludes, and the keys that it needs, each with
/// the reason.
std::vector<Words> compatibility_lines(const std::string& name) {
  const auto& algorithms = registry().algorithms;
  std::vector<Words> lines;
  const auto own = algorithms.make(name)->compatibility();
  for (const auto& [other, reason] : own.excludes) lines.push_back({"not with " + other, reason});
  for (const auto& other : algorithms.names())
    for (const auto& [excluded, reason] : algorithms.make(other)->compatibility().excludes)
      if (excluded == name) lines.push_back({"not with " + other, reason});
  for (const auto& [key, values, reason] : own.needs)
    lines.push_back({"needs " + key + ": " + joined(values, " or "), reason});
  return lines;
}

void print(const std::vector<Words>& rows, const char* indent = "") {
  if (rows.empty()) return;
  for (const auto& line : aligned(rows, "<")) std::cout << indent << line << '\n';
}

std::vector<Words> lines_of(const CatalogBase& catalog) {
  std::vector<Words> lines;
  for (const auto& name : catalog.names()) lines.push_back({name, catalog.doc(name)});
  return lines;
}

std::vector<Words> recipe_lines() {
  std::vector<Words> lines;
  for (const auto& recipe : list_recipes()) lines.push_back({recipe.name, recipe.doc});
  return lines;
}

const CatalogBase* catalog_of(const std::string& kind) {
  for (const auto* catalog : registry().catalogs())
    if (kind == catalog->kind() || kind == catalog->plural()) return catalog;
  return nullptr;
}

/// The kinds of components. word: CatalogBase::kind or plural.
std::vector<std::string> kinds(const std::string& (CatalogBase::*word)() const) {
  std::vector<std::string> words;
  for (const auto* catalog : registry().catalogs()) words.push_back((catalog->*word)());
  return words;
}

/// UserError for a name without its kind, or a kind without a name.
void check_kind_and_name(const Words& words) {
  if (words.size() != 1 || words[0].starts_with('-')) return;
  const auto& word = words[0];
  if (const auto* catalog = catalog_of(word))
    throw UserError("composer describe: which " + catalog->kind() + "? `composer list " +
                    catalog->plural() + "` names them");
  std::string commands;
  Words names;
  for (const auto* catalog : registry().catalogs()) {
    const auto here = catalog->names();
    names.insert(names.end(), here.begin(), here.end());
    if (catalog->contains(word))
      commands.append(commands.empty() ? "; did you mean " : " or ")
          .append("composer describe " + catalog->kind() + " " + word);
  }
  const bool recipe =
      std::ranges::any_of(list_recipes(), [&](const auto& one) { return one.name == word; });
  throw UserError("composer describe: needs a kind and a name" +
                  (!commands.empty() ? commands + "?"
                   : recipe ? "; '" + word + "' is a recipe: composer train -f " + word + " --dump"
                            : did_you_mean(word, names)));
}

constexpr const char* written_by =
    "Written by `composer reference`; a test holds it to the program.\n\n";

std::string replaced_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Escapes text for a cell of a Markdown table.
std::string cell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (const char* mark : {"|", "*", "<"})
    text = replaced_all(text, mark, std::string("\\") + mark);
  return text;
}

/// The text as Markdown code; empty stays empty.
std::string code(const std::string& text) {
  return text.empty() ? "" : "`" + replaced_all(text, "|", "\\|") + "`";
}

std::string first_upper(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string field_table(const FieldSet& set) {
  const auto docs = describe(set);
  if (docs.empty()) return "It has no keys.\n";
  std::string table = "| key | default | takes | meaning |\n|---|---|---|---|\n";
  for (const FieldDoc& doc : docs)
    table += "| " + code(doc.name) + " | " +
             (doc.default_text == "required" ? "required" : code(doc.default_text)) + " | " +
             cell(doc.type) + " | " + cell(doc.doc) + " |\n";
  return table;
}

std::string component_section(const CatalogBase& catalog, const std::string& name) {
  std::string section = "## " + name + "\n\n" + first_upper(catalog.doc(name)) + ".";
  if (catalog.kind() == "algorithm") section += " [More](../algorithms.md#" + name + ").";
  section += "\n\n" + field_table(catalog.find(name)->fields());
  if (catalog.kind() != "algorithm") return section;
  const auto lines = compatibility_lines(name);
  if (!lines.empty()) section += '\n';
  for (const auto& line : lines) section += "- " + cell(line[0]) + ": " + cell(line[1]) + "\n";
  return section;
}

std::string catalog_page(const CatalogBase& catalog) {
  std::string page = "# " + first_upper(catalog.plural()) + "\n\n" + written_by;
  page += "| " + catalog.kind() + " | what it is |\n|---|---|\n";
  for (const auto& name : catalog.names())
    page += "| [`" + name + "`](#" + name + ") | " + cell(catalog.doc(name)) + " |\n";
  for (const auto& name : catalog.names()) page += "\n" + component_section(catalog, name);
  return page;
}

std::string recipe_page() {
  std::string page = std::string("# Keys of a recipe\n\n") + written_by +
                     "Keys that choose components, by name or with parameters:\n\n"
                     "| key | takes |\n|---|---|\n";
#define X(key, kind, several, alters)                                                    \
  page += std::string("| `" #key "` | ") + (several ? "any of the [" : "one of the [") + \
          registry().kind.plural() + "](" + registry().kind.plural() + ".md) |\n";
  COMPOSER_CHOICES(X)
#undef X
  page += std::string("| `") + evaluators_key + "` | " + cell(evaluators_doc) + " |\n";
  EvaluatorOptions evaluator;
  page += std::string("\nKeys of each of the `") + evaluators_key +
          "`, beside `dataset`, which takes one of the [datasets](datasets.md):\n\n" +
          field_table(collect(evaluator));
  TrainerOptions options;
  page += "\nKeys of the run; a dot goes one level deeper:\n\n" + field_table(collect(options)) +
          "\nKeys that may be `auto`, which the data and weights of a run then decide; "
          "`train --plan` and the log tell how:\n\n| key | comes to |\n|---|---|\n";
  for (const auto& automatic : automatic_keys())
    page +=
        "| `" + std::string(automatic.key) + "` | " + cell(std::string(automatic.meaning)) + " |\n";
  return page;
}

std::string recipes_page() {
  std::string page = std::string("# Recipes\n\n") + written_by +
                     "Each is found by its name: `composer train -f NAME`.\n\n"
                     "| recipe | its first line |\n|---|---|\n";
  for (const auto& recipe : list_recipes())
    page += "| " + code(recipe.name) + " | " + cell(recipe.doc) + " |\n";
  return page;
}

std::string usage(const CommandDoc& command) {
  std::string line = "composer " + command.name;
  for (const auto& option : command.options) {
    std::string words =
        option.positional ? first_upper(option.names[0]) : option.names.back() + " ...";
    if (option.positional)
      std::ranges::transform(words, words.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      });
    if (option.positional && option.several) words += " ...";
    if (option.required)
      line += " " + words;
    else if (option.positional)
      line += " [" + words + "]";
  }
  return line + (command.takes_keys ? " [--dotted.key VALUE ...]" : "");
}

std::string command_section(const CommandDoc& command) {
  std::string section = "## " + command.name + "\n\n```\n" + usage(command) + "\n```\n\n" +
                        cell(command.about) + "\n";
  if (command.options.empty()) return section;
  section += "\n| option | default | takes | meaning |\n|---|---|---|---|\n";
  for (const auto& option : command.options) {
    Words names;
    for (const auto& name : option.names) names.push_back(code(name));
    section += "| " + joined(names) + " | " +
               (option.required ? "required" : code(option.initial)) + " | " + cell(option.type) +
               " | " + cell(option.doc) + " |\n";
  }
  return section;
}

std::string commands_page() {
  std::string page = std::string("# Subcommands\n\n") + written_by +
                     "Options before the subcommand, as in `composer -n 8 train`, start ranks: "
                     "[ranks.md](../ranks.md).\n\n";
  for (const auto& [name, command] : command_table())
    for (const auto& doc : declarations_of(command)) page += command_section(doc) + "\n";
  page.pop_back();
  return page;
}

std::map<std::string, std::string> pages() {
  std::map<std::string, std::string> pages{
      {"commands", commands_page()}, {"recipe", recipe_page()}, {"recipes", recipes_page()}};
  for (const auto* catalog : registry().catalogs())
    pages[catalog->plural()] = catalog_page(*catalog);
  return pages;
}

}  // namespace

int list_command(const Words& words) {
  CLI::App app("Lists what recipes can name, one a line, its name first.", "list");
  std::string kind;
  auto known = kinds(&CatalogBase::plural);
  known.emplace_back("recipes");
  app.add_option("kind", kind, "kind of component, or recipes")->check(word_of(known));
  if (!parse(app, words)) return 0;

  if (kind == "recipes") {
    print(recipe_lines());
  } else if (const auto* catalog = catalog_of(kind)) {
    print(lines_of(*catalog));
  } else {
    for (const auto* each : registry().catalogs()) {
      std::cout << each->plural() << ":\n";
      print(lines_of(*each));
      std::cout << '\n';
    }
    std::cout << "recipes:\n";
    print(recipe_lines());
  }
  return 0;
}

int describe_command(const Words& words) {
  CLI::App app("Describes a component and its hyperparameters.", "describe");
  std::string kind, name;
  const auto known = kinds(&CatalogBase::kind);
  app.add_option("kind", kind, "kind of component")->required()->check(word_of(known));
  app.add_option("name", name, "as `composer list` shows it")->required();
  check_kind_and_name(words);
  if (!parse(app, words)) return 0;

  const auto* catalog = catalog_of(kind);
  if (!catalog->contains(name))
    throw UserError("composer describe: unknown " + catalog->kind() + " '" + name + "'" +
                    suggestion(name, catalog->names()));
  std::cout << name << ": " << catalog->doc(name) << '\n';
  const auto component = catalog->find(name);
  const auto help = help_text(component->fields());
  std::cout << (help.empty() ? "It has no hyperparameters.\n" : "hyperparameters:\n" + help);
  if (catalog == &registry().algorithms) {
    const auto lines = compatibility_lines(name);
    if (!lines.empty()) std::cout << "in a recipe:\n";
    print(lines, "  ");
  }
  return 0;
}

int reference_command(const Words& words) {
  CLI::App app(
      "Writes pages on everything that recipes and command lines can name, from the "
      "declarations.",
      "reference");
  std::string folder;
  app.add_option("--output", folder, "the folder of the pages; files of their names are replaced")
      ->required();
  if (!parse(app, words)) return 0;
  check_on_this_machine("--output", folder);
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  for (const auto& [name, text] : pages()) {
    const auto path = std::filesystem::path(folder) / (name + ".md");
    std::ofstream file(path, std::ios::binary);
    if (!(file << text).flush())
      throw UserError("--output: " + path.string() + " cannot be written");
  }
  log::info("the reference is in " + folder);
  return 0;
}

int schema_command(const Words& words) {
  CLI::App app(
      "Prints a JSON Schema (draft 2020-12) of recipes, by which editors complete and check "
      "them:\n  composer schema > recipe.schema.json",
      "schema");
  if (!parse(app, words)) return 0;
  std::cout << recipe_schema().dump(2) << '\n';
  return 0;
}

}  // namespace composer
