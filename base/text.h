// Helpers for text: lists, letters and numbers, for messages and recipes.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace composer {

inline std::string joined(const std::vector<std::string>& parts,
                          std::string_view separator = ", ") {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

/// The parts of `text` between the separators; one part where there is none.
inline std::vector<std::string_view> separated(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The number that the whole text is; nothing for any other text.
template <class T>
std::optional<T> to_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end ? std::optional(value) : std::nullopt;
}

/// The hash FNV-1a of a text, 64 bits, the same on every machine. hash: that of the text before it.
constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = 0xCBF29CE484222325u) {
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return hash;
}

/// The first ten, and how many more there are.
inline std::string first_few(std::vector<std::string> parts) {
  constexpr size_t kMost = 10;
  if (parts.size() <= kMost) return joined(parts);
  const size_t more = parts.size() - kMost;
  parts.resize(kMost);
  return joined(parts) + " and " + std::to_string(more) + " more";
}

/// "1 batch", "2 batches".
inline std::string quantity(int64_t count, const std::string& noun) {
  std::string text = std::to_string(count);
  text.append(1, ' ').append(noun);
  if (count != 1) text += noun.ends_with("tch") || noun.ends_with('s') ? "es" : "s";
  return text;
}

/// Whether each of `names` is among `others`.
inline bool are_among(const std::vector<std::string>& names, std::vector<std::string> others) {
  std::ranges::sort(others);
  return std::ranges::all_of(
      names, [&](const auto& name) { return std::ranges::binary_search(others, name); });
}

/// A sample's name and number. A name that ends with the number says both.
inline std::string sample_text(const std::string& name, int64_t sample) {
  const auto number = "sample " + std::to_string(sample);
  if (name.ends_with(number)) return name;
  return name.empty() ? number : name + ", " + number;
}

/// A hint for a message about a missing path that looks like one of Windows; else empty.
inline std::string slash_hint(std::string_view path) {
  return path.find('\\') == path.npos ? "" : "; folders are parted by /, not by \\";
}

/// Changes ASCII letters only.
inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

/// Without the blanks around it.
inline std::string trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(blanks) + 1 - begin));
}

}  // namespace composer
