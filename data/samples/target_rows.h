// The values of samples of lists and shards: numbers that are the target in place of a class.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

// numbers_in() gives the numbers of one target of a sample, at least one. All overloads throw
// FormatError with the reason where there is no number, or one that is not finite or too large for
// a float.

/// Numbers of a text, separated by blanks.
std::vector<float> numbers_in(std::string_view text);
/// A JSON number, true (1), false (0), or a list of these.
std::vector<float> numbers_in(const nlohmann::json& value);
/// An array of numbers of a numpy type ("float32", "int8", ...), little-endian.
std::vector<float> numbers_in(std::span<const uint8_t> bytes, std::string_view type);
/// Bytes of one number of a numpy type; 0 where the type is unknown.
uint64_t bytes_of_number(std::string_view type);

/// The end of a message that lists the known names: "; did you mean 'area'?" where one of them is
/// near to `name`, else empty.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// The targets of samples, one row per sample. Each target has as many numbers as in the first
/// sample.
class TargetRows {
 public:
  /// names: the targets, in order.
  explicit TargetRows(std::vector<std::string> names) : names_(std::move(names)) {}

  /// Adds the next sample's numbers, by target. Throws FormatError ("2 numbers in x; ...") where
  /// their count differs from the first sample's.
  void add(const std::vector<std::vector<float>>& numbers);
  /// Adds the samples of `other`, which has the same targets. Throws as add() does.
  void append(const TargetRows& other);

  /// The name of each number of a row: "x", or for a target with several "x[0]", "x[1]", ...
  std::vector<std::string> value_names() const;
  /// The sample's numbers, one for each of value_names().
  std::span<const float> row(size_t sample) const;

 private:
  void take_counts(const std::vector<size_t>& counts);

  std::vector<std::string> names_;
  std::vector<size_t> counts_;  ///< numbers of each target
  size_t row_size_ = 0;
  std::vector<float> numbers_;
};

}  // namespace composer
