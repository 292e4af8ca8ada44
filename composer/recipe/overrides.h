// The words of a command line that change a recipe: --dotted.path value.
#pragma once

#include <string>
#include <vector>

#include "base/params/value.h"

namespace composer {

struct Override {
  std::string key;  ///< the key as typed, without dashes
  std::vector<std::string> words;
  Origin origin;

  /// The words as a value: none, one, or a list.
  Value value() const;
};

/// Splits the words into options and their values. Negative numbers are values. Other words that
/// start with - and belong to no option are added to `problems`.
std::vector<Override> parse_overrides(const std::vector<std::string>& words, Problems& problems);

/// A key of the recipe that takes a value, and the position of the value.
struct RecipeKey {
  std::string path;                ///< "algorithms.blurpool.min_channels"
  Value* map;                      ///< "min_channels" is a key of this map ...
  std::vector<std::string> below;  ///< ... or, for nested structs, these keys one below the other
  bool list, flag;
  /// The keys of each map in a list of maps: "{pattern, lr_scale}"; else empty.
  std::string item_keys;
};

/// Removes train_dataset's keys if some are val_dataset's.
void prefer_evaluation(std::vector<const RecipeKey*>& meant);

/// Sets the override's value, or adds to `problems`. For a list of maps, each word is a map in
/// YAML, or a list of maps.
void apply(const Override& given, const RecipeKey& key, Problems& problems);

/// Whether `path` ends with the dotted `suffix`.
bool has_suffix(const std::string& path, const std::string& suffix);

/// All endings of the paths with as many parts as `word`: candidates for a mistyped `word`.
std::vector<std::string> endings(const std::vector<std::string>& paths, const std::string& word);

/// The meaning of a word from another training program.
struct Meant {
  std::string option;  ///< "--max_duration 10ep", or ranks_meant_by(); empty: unknown
  std::string key;     ///< the meant key, if no path ends with it
};

/// word: an option as typed, without leading dashes. values: the words that follow it. paths: the
/// recipe's keys.
Meant meant_by(const std::string& word, const std::vector<std::string>& values,
               const std::vector<std::string>& paths);

/// "composer -n 4 ..." if `word` is another program's option for the number of processes or GPUs,
/// and the value is above 1; else empty.
std::string ranks_meant_by(const std::string& word, const std::vector<std::string>& values);

}  // namespace composer
