#include "cli/arguments.h"

#include <iostream>

#include "composer/error.h"

namespace composer {

bool parse(CLI::App& app, const std::vector<std::string>& words) {
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return true;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ParseError& problem) {
    throw UserError("composer " + app.get_name() + ": " + problem.what());
  }
}

}  // namespace composer
