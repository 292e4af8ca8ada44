// The subcommand reference: pages on everything that is declared.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/compatibility_lines.h"
#include "cli/declarations.h"
#include "composer/recipe/automatic.h"
#include "composer/recipe/options.h"
#include "composer/recipe/recipe.h"
#include "composer/recipe/registry.h"

namespace composer {
namespace {

constexpr const char* written_by =
    "Written by `composer reference`; a test holds it to the program.\n\n";

std::string replaced_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Text within a cell of a Markdown table: one line, and no mark of one.
std::string cell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (const char* mark : {"|", "*", "<"})
    text = replaced_all(text, mark, std::string("\\") + mark);
  return text;
}

/// As code; empty stays empty.
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
  for (const auto& [what, why] : lines) section += "- " + cell(what) + ": " + cell(why) + "\n";
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

int reference_command(const Words& words) {
  CLI::App app(
      "Writes pages on everything that recipes and command lines can name, from the "
      "declarations.",
      "reference");
  std::string folder;
  app.add_option("--output", folder, "the folder of the pages; files of their names are replaced")
      ->required();
  if (!parse(app, words)) return 0;
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

}  // namespace composer
