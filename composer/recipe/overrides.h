// The words of a command line that change a recipe: --dotted.path value.
#pragma once

#include <string>
#include <vector>

#include "base/params/value.h"

namespace composer {

struct Override {
  std::string key;  ///< as typed, without dashes
  std::vector<std::string> words;
  Origin origin;

  /// The words as a value: none, one, or a list.
  Value value() const;
};

/// Splits the words into options and their values. Negative numbers are values. What cannot be is
/// added to `problems`.
std::vector<Override> parse_overrides(const std::vector<std::string>& words, Problems& problems);

/// A key of the resolved recipe that takes a value: where to put one.
struct RecipeKey {
  std::string path;                ///< "algorithms.blurpool.min_channels"
  Value* map;                      ///< "min_channels" is a key of this map ...
  std::vector<std::string> below;  ///< ... or, for nested structs, these keys one below the other
  bool list, flag;
  std::string item_keys;  ///< of a list of maps: "{pattern, lr_scale}"; else empty
};

/// Leaves those of train_dataset out where some are val_dataset's.
void prefer_evaluation(std::vector<const RecipeKey*>& meant);

/// Puts the override's value in place, or adds to `problems`. Of a list of maps, each word is a map
/// as YAML has it, or a list of such.
void apply(const Override& given, const RecipeKey& key, Problems& problems);

/// Whether `path` ends with the dotted `suffix`.
bool has_suffix(const std::string& path, const std::string& suffix);

/// All endings of the paths that have as many parts as `word`: what a mistyped `word` may have
/// meant.
std::vector<std::string> endings(const std::vector<std::string>& paths, const std::string& word);

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
