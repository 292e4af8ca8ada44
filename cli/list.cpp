// The subcommands list and describe: what there is.
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/compatibility_lines.h"
#include "composer/recipe/recipe.h"
#include "composer/recipe/registry.h"

namespace composer {
namespace {

void print(const std::vector<Line>& lines, const char* indent = "") {
  size_t width = 0;
  for (const auto& [name, doc] : lines) width = std::max(width, name.size());
  for (const auto& [name, doc] : lines) {
    if (doc.empty())
      std::cout << indent << name << '\n';
    else
      std::cout << indent << std::left << std::setw(static_cast<int>(width)) << name << "  " << doc
                << '\n';
  }
}

std::vector<Line> lines_of(const CatalogBase& catalog) {
  std::vector<Line> lines;
  for (const auto& name : catalog.names()) lines.emplace_back(name, catalog.doc(name));
  return lines;
}

std::vector<Line> recipe_lines() {
  std::vector<Line> lines;
  for (const auto& recipe : list_recipes()) lines.emplace_back(recipe.name, recipe.doc);
  return lines;
}

const CatalogBase* catalog_of(const std::string& kind) {
  for (const auto* catalog : registry().catalogs())
    if (kind == catalog->kind() || kind == catalog->plural()) return catalog;
  return nullptr;
}

/// word: CatalogBase::kind or plural.
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

}  // namespace

int list_command(const Words& words) {
  CLI::App app("Lists what recipes can name, one a line, its name first.", "list");
  std::string kind;
  auto known = kinds(&CatalogBase::plural);
  known.emplace_back("recipes");
  app.add_option("kind", kind, "of component, or recipes")->check(choices(known));
  if (!parse(app, words)) return 0;

  if (kind == "recipes") {
    print(recipe_lines());
  } else if (const auto* catalog = catalog_of(kind)) {
    print(lines_of(*catalog));
  } else if (kind.empty()) {
    for (const auto* each : registry().catalogs()) {
      std::cout << each->plural() << ":\n";
      print(lines_of(*each));
      std::cout << '\n';
    }
    std::cout << "recipes:\n";
    print(recipe_lines());
  } else {
    throw UserError("composer list: unknown kind '" + kind + "'" + suggestion(kind, known));
  }
  return 0;
}

int describe_command(const Words& words) {
  CLI::App app("Describes a component and its hyperparameters.", "describe");
  std::string kind, name;
  const auto known = kinds(&CatalogBase::kind);
  app.add_option("kind", kind, "of component")->required()->check(choices(known));
  app.add_option("name", name, "as `composer list` shows it")->required();
  check_kind_and_name(words);
  if (!parse(app, words)) return 0;

  const auto* catalog = catalog_of(kind);
  if (catalog == nullptr)
    throw UserError("composer describe: unknown kind '" + kind + "'" + suggestion(kind, known));
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

}  // namespace composer
