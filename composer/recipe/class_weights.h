// How much the samples of each class count in the loss.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/params/params.h"

namespace composer {

/// Factors of the losses of samples by their class, above 0; empty: all are the same.
struct ClassWeights {
  std::vector<double> numbers;                          ///< one for each output; or
  std::vector<std::pair<std::string, double>> by_name;  ///< of some classes, 1 for the others; or
  bool balanced = false;  ///< so that all classes together count alike, however rare

  bool given() const { return !numbers.empty() || follow_from_data(); }
  /// Until the recipe is resolved (composer/run/automatic_values.h) there are no numbers then.
  bool follow_from_data() const { return balanced || !by_name.empty(); }
};

/// For the classes of these names, or numbers as text, in their order. samples: of each class to
/// train on, for balanced ones: samples / (classes that have some * the class's). UserError for a
/// name that no class has.
std::vector<double> numbers_of(const ClassWeights& weights, const std::vector<std::string>& classes,
                               const std::map<int64_t, int64_t>& samples);

template <>
inline constexpr bool is_vector<ClassWeights> = true;  // of words on the command line

template <>
struct FieldType<ClassWeights> {
  static std::string name() { return "balanced, list of number, or numbers by class"; }
};

/// balanced; a number or a list of them; a map of names to numbers; the same as a list of words,
/// each NAME=NUMBER or a map as YAML has it.
void read_value(const Value& value, const Rules& rules, const std::string& path, ClassWeights& out,
                Problems& problems);
void check_value(const ClassWeights& weights, const Rules& rules, const std::string& path,
                 Problems& problems);
Value write_value(const ClassWeights& weights);

}  // namespace composer
