// What every subcommand does with its words: options by CLI11, the rest as overrides of a recipe.
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

/// Parses `words`. Returns false when help was asked for and printed, or the declarations alone are
/// asked for (cli/declarations.h). UserError on what CLI11 refuses. Words it does not know are left
/// in app.remaining() where the app allows extras.
bool parse(CLI::App& app, const Words& words);

/// Checks of a number; what CLI11's own say names the largest there is.
CLI::Validator positive();
CLI::Validator not_negative();

/// Takes these words alone.
CLI::Validator word_of(const Words& words);

/// Tells which words an option takes where the command itself checks them (check_word).
CLI::Validator choices(const Words& words);

/// The names of `app`'s options, without dashes.
Words option_names(const CLI::App& app);

/// Declares -f/--file for a recipe, any key of which may be given as an override. otherwise: the
/// recipe that is used without the option, for the help; empty: none.
CLI::Option* add_recipe(CLI::App& app, std::string& file, const std::string& otherwise = "");

/// Declares the flag --json. The option converts to true once it was given.
const CLI::Option& add_json(CLI::App& app,
                            const std::string& what = "one JSON object on standard output");

/// The recipe `file` with the overrides that `app` was given.
Recipe recipe_of(const CLI::App& app, const std::string& file);

/// Lets a run leave nothing on the disk and begin afresh.
void leave_no_run(TrainerOptions& options);

/// UserError for several ranks.
void check_alone(const std::string& command, const RankEnvironment& environment);

/// The keys of a table.
template <class Table>
Words names_in(const Table& table) {
  const auto names = std::views::keys(table);
  return {names.begin(), names.end()};
}

/// One line of JSON. Bytes that are no UTF-8 are replaced.
std::string json_line(const nlohmann::ordered_json& json);

/// The commands whose recipe is the quickstart where none is given.
inline const Words commands_with_quickstart{"train", "ablate", "sweep", "lr-range"};

/// The words that `app`, whose option --file is a recipe, left as overrides. UserError where the
/// recipe stands among them without that option, and where images of one's own do that only
/// another recipe takes.
Words overrides_of(const CLI::App& app);

/// UserError where `word`, which was given for `option`, is none of `known`.
void check_word(const std::string& option, const std::string& word, const Words& known);

/// Calls the entry of `table` that words[0] names with the words after it. Asked for help, it names
/// them all. UserError for any other word. command: whose table it is, for the messages.
int dispatch(const std::string& command, const CommandTable& table, const Words& words);

}  // namespace composer
