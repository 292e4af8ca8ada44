// Weights of the classes in the loss.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/params/params.h"

namespace composer {

/// Factors of the samples' losses by class, above 0; empty: no weights. At most one member is set.
struct ClassWeights {
  std::vector<double> numbers;  ///< a weight per output
  /// Weights of the named classes, 1 for the others.
  std::vector<std::pair<std::string, double>> by_name;
  bool balanced = false;  ///< weights inversely proportional to the classes' frequencies

  bool given() const { return !numbers.empty() || follow_from_data(); }
  /// Whether the numbers follow from the data. resolve_automatic() then sets them.
  bool follow_from_data() const { return balanced || !by_name.empty(); }
};

/// The weights of `classes`, which are names, or indices as text, in order. samples: the number of
/// training samples by class, for balanced weights: all samples / (number of classes with samples *
/// samples of the class). UserError for a name that is not among the classes.
std::vector<double> numbers_of(const ClassWeights& weights, const std::vector<std::string>& classes,
                               const std::map<int64_t, int64_t>& samples);

template <>
inline constexpr bool is_vector<ClassWeights> = true;  // the command line gives it as several words

template <>
struct FieldType<ClassWeights> {
  static std::string name() { return "balanced, list of number, or numbers by class"; }
};

/// Takes balanced; a number or a list of numbers; a map of names to numbers; or a list of words,
/// each NAME=NUMBER or a map in YAML.
void read_value(const Value& value, const Rules& rules, const std::string& path, ClassWeights& out,
                Problems& problems);
void check_value(const ClassWeights& weights, const Rules& rules, const std::string& path,
                 Problems& problems);
Value write_value(const ClassWeights& weights);

}  // namespace composer
