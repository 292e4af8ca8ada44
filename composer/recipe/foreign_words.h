// What other training programs call the keys of a recipe.
#pragma once

#include <string>
#include <vector>

namespace composer {

/// What someone may have meant who knows `word` from another program.
struct Meant {
  std::string option;  ///< "--max_duration 10ep"; empty for a word that is not known
  std::string key;     ///< the key meant, where no path ends with it
};

/// word: an option as typed, without dashes before it. values: what followed it. paths: the
/// recipe's keys.
Meant meant_by(const std::string& word, const std::vector<std::string>& values,
               const std::vector<std::string>& paths);

}  // namespace composer
