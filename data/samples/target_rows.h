// Numbers that samples of lists and shards have for a target in place of a class.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

// Numbers of one target of a sample, at least one. All numbers_in() throw FormatError with the
// reason where there is none, or one that is not finite or too large for a float.

/// Numbers of a text, with blanks between them.
std::vector<float> numbers_in(std::string_view text);
/// A number, true (1), false (0), or a list of these.
std::vector<float> numbers_in(const nlohmann::json& value);
/// Numbers of the type that numpy calls so ("float32", "int8", ...), little-endian, one after the
/// other.
std::vector<float> numbers_in(std::span<const uint8_t> bytes, std::string_view type);
/// Bytes of one number of such a type; 0 of no such type.
uint64_t bytes_of_number(std::string_view type);

/// For a message that has listed the known names: "; did you mean 'area'?" where one of them is
/// near to `name`, else empty.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// The targets of samples, one after the other: of each target as many numbers as the first sample
/// has.
class TargetRows {
 public:
  /// names: of the targets, in order.
  explicit TargetRows(std::vector<std::string> names) : names_(std::move(names)) {}

  /// numbers: of each target of the next sample. Throws FormatError ("2 numbers in x; ...") where
  /// they are not as many as the first sample's.
  void add(const std::vector<std::vector<float>>& numbers);
  /// Adds the samples of `other`, which has the same targets. Throws as add().
  void append(const TargetRows& other);

  bool empty() const { return counts_.empty(); }
  /// Of each number: "x", or of a target with several "x[0]", "x[1]", ...
  std::vector<std::string> value_names() const;
  /// Of the sample, one for each of value_names().
  std::span<const float> row(size_t sample) const;

 private:
  void take_counts(const std::vector<size_t>& counts);

  std::vector<std::string> names_;
  std::vector<size_t> counts_;  ///< of the first sample's numbers, by target
  size_t row_size_ = 0;
  std::vector<float> numbers_;
};

}  // namespace composer
