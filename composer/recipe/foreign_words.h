// What other training programs call the keys of a recipe.
#pragma once

#include <string>
#include <vector>

namespace composer {

/// What someone may have meant who knows `word` from another program.
struct Meant {
  std::string option;  ///< "--max_duration 10ep", or ranks_meant_by(); empty: it is not known
  std::string key;     ///< the key meant, where no path ends with it
};

/// word: an option as typed, without dashes before it. values: what followed it. paths: the
/// recipe's keys.
Meant meant_by(const std::string& word, const std::vector<std::string>& values,
               const std::vector<std::string>& paths);

/// "composer -n 4 ..." for a word by which other programs are told to start as many processes, or
/// to train on as many GPUs, and a number above 1; else empty.
std::string ranks_meant_by(const std::string& word, const std::vector<std::string>& values);

}  // namespace composer
