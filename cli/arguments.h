// What every subcommand does with its words: options by CLI11, the rest as overrides of a recipe.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>
#include <vector>

namespace composer {

/// Parses `words`. Returns false when help was asked for and printed. UserError on what CLI11
/// refuses. Words it does not know are left in app.remaining() where the app allows extras.
bool parse(CLI::App& app, const std::vector<std::string>& words);

}  // namespace composer
