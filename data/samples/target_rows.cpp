#include "data/samples/target_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files/byte_reader.h"
#include "base/params/foreign_json.h"
#include "base/params/value.h"

namespace composer {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr size_t kMostNumbers = 1 << 20;

float checked(double number, const std::string& text) {
  if (!std::isfinite(number) || std::abs(number) > std::numeric_limits<float>::max())
    throw FormatError("'" + text + "' is no number that 32 bits hold");
  return static_cast<float>(number);
}

float number_of(std::string_view text) {
  const std::string shown(text.substr(0, 40));
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = std::numeric_limits<double>::infinity();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    throw FormatError("'" + shown + "' is no number");
  return checked(number, shown);
}

template <class T>
double plain(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

/// A 16-bit float of IEEE 754.
double half(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 == 0 ? 1 : -1;
  if (exponent == 31) return sign * (mantissa == 0 ? INFINITY : NAN);
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

struct NumberType {
  uint64_t bytes;
  double (*read)(const uint8_t* at);
};

const NumberType* number_type(std::string_view name) {
  static const std::map<std::string_view, NumberType> types{
      {"float16", {2, half}},           {"float32", {4, plain<float>}},
      {"float64", {8, plain<double>}},  {"int8", {1, plain<int8_t>}},
      {"int16", {2, plain<int16_t>}},   {"int32", {4, plain<int32_t>}},
      {"int64", {8, plain<int64_t>}},   {"uint8", {1, plain<uint8_t>}},
      {"uint16", {2, plain<uint16_t>}}, {"uint32", {4, plain<uint32_t>}},
      {"uint64", {8, plain<uint64_t>}}};
  const auto found = types.find(name);
  return found == types.end() ? nullptr : &found->second;
}

float number_of(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_number()) throw FormatError(shown_value(value) + " is no number");
  return checked(value.get<double>(), shown_value(value));
}

}  // namespace

std::vector<float> numbers_in(std::string_view text) {
  while (text.ends_with('\0')) text.remove_suffix(1);
  std::vector<float> numbers;
  for (size_t at = text.find_first_not_of(kBlanks); at != text.npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    numbers.push_back(number_of(text.substr(at, end - at)));
    at = text.find_first_not_of(kBlanks, end);
  }
  if (numbers.empty()) throw FormatError("there is no number");
  return numbers;
}

std::vector<float> numbers_in(const nlohmann::json& value) {
  if (!value.is_array()) return {number_of(value)};
  std::vector<float> numbers;
  for (const auto& one : value) numbers.push_back(number_of(one));
  if (numbers.empty()) throw FormatError("there is no number");
  return numbers;
}

uint64_t bytes_of_number(std::string_view type) {
  const NumberType* const known = number_type(type);
  return known == nullptr ? 0 : known->bytes;
}

std::vector<float> numbers_in(std::span<const uint8_t> bytes, std::string_view type) {
  const NumberType* const known = number_type(type);
  if (known == nullptr) throw FormatError(std::string(type) + " is no type of numbers");
  if (bytes.empty() || bytes.size() % known->bytes != 0)
    throw FormatError("has " + std::to_string(bytes.size()) +
                      " bytes, not a multiple of the size of " + std::string(type));
  std::vector<float> numbers;
  for (size_t at = 0; at < bytes.size(); at += known->bytes) {
    const double number = known->read(&bytes[at]);
    numbers.push_back(checked(number, std::to_string(number)));
  }
  return numbers;
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

/// Takes each target's count of numbers from the first sample, and checks later samples.
void TargetRows::take_counts(const std::vector<size_t>& counts) {
  if (counts_.empty()) {
    const size_t all = std::accumulate(counts.begin(), counts.end(), size_t{0});
    if (all > kMostNumbers)
      throw FormatError("more than " + std::to_string(kMostNumbers) + " numbers");
    counts_ = counts, row_size_ = all;
  }
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != counts_[i])
      throw FormatError(std::to_string(counts[i]) + " numbers in " + names_[i] +
                        "; the first sample has " + std::to_string(counts_[i]));
}

void TargetRows::add(const std::vector<std::vector<float>>& numbers) {
  std::vector<size_t> counts;
  for (const auto& one : numbers) counts.push_back(one.size());
  take_counts(counts);
  for (const auto& one : numbers) numbers_.insert(numbers_.end(), one.begin(), one.end());
}

void TargetRows::append(const TargetRows& other) {
  if (other.counts_.empty()) return;
  take_counts(other.counts_);
  numbers_.insert(numbers_.end(), other.numbers_.begin(), other.numbers_.end());
}

std::vector<std::string> TargetRows::value_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < counts_.size(); ++i)
    for (size_t k = 0; k < counts_[i]; ++k)
      names.push_back(counts_[i] == 1 ? names_[i] : names_[i] + "[" + std::to_string(k) + "]");
  return names;
}

std::span<const float> TargetRows::row(size_t sample) const {
  return std::span(numbers_).subspan(sample * row_size_, row_size_);
}

}  // namespace composer
