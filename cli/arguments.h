// The command line of a subcommand: CLI11 reads its options; the other words override keys of a
// recipe.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json_fwd.hpp>
#include <ranges>
#include <string>

#include "base/rank_environment.h"
#include "cli/commands.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// Parses `words`. Returns false when the help was printed or the declaration was recorded
/// (cli/declarations.h), so that there is nothing to run. UserError for words that CLI11 refuses.
/// Unknown words are left in app.remaining() when the app allows extras.
bool parse(CLI::App& app, const Words& words);

/// Checks of a number. Unlike CLI11's own checks, their messages name no upper bound.
CLI::Validator positive();
CLI::Validator not_negative();

/// Accepts only these words.
CLI::Validator word_of(const Words& words);

/// Names the words of an option for help and completion; the command itself checks them.
CLI::Validator choices(const Words& words);

/// The names of `app`'s options, without dashes.
Words option_names(const CLI::App& app);

/// Declares -f/--file for a recipe, any key of which may be given as an override. otherwise: the
/// recipe that is used without the option, for the help; may be empty.
CLI::Option* add_recipe(CLI::App& app, std::string& file, const std::string& otherwise = "");

/// Declares the flag --json. The returned option converts to true when the flag was given.
const CLI::Option& add_json(CLI::App& app,
                            const std::string& what = "one JSON object on standard output");

/// The recipe `file` with the overrides that `app` was given.
Recipe recipe_of(const CLI::App& app, const std::string& file);

/// Sets the options of a run that writes nothing to disk and resumes nothing.
void leave_no_run(TrainerOptions& options);

/// UserError when the program was started as several ranks.
void check_alone(const std::string& command, const RankEnvironment& environment);

/// The keys of a table.
template <class Table>
Words names_in(const Table& table) {
  const auto names = std::views::keys(table);
  return {names.begin(), names.end()};
}

/// The JSON on one line. Invalid UTF-8 becomes U+FFFD.
std::string json_line(const nlohmann::ordered_json& json);

/// The commands that use the recipe quickstart when none is given.
inline const Words commands_with_quickstart{"train", "ablate", "sweep", "lr-range"};

/// The overrides of the recipe: the words that `app`, whose option --file names the recipe, did not
/// parse. UserError when the first word is a recipe without --file, or names the user's images
/// although the recipe (the quickstart) draws its own.
Words overrides_of(const CLI::App& app);

/// UserError when `word`, the value of `option`, is none of `known`.
void check_word(const std::string& option, const std::string& word, const Words& known);

/// Calls the action words[0] of the table with the other words; --help lists the actions. UserError
/// for an unknown action. command: the name of the command, for messages.
int dispatch(const std::string& command, const CommandTable& table, const Words& words);

}  // namespace composer
