#include "analysis/trace/trace_event.h"

#include <charconv>
#include <optional>

namespace composer {
namespace {

/// The UTF-16 code unit of the escape "\uXXXX" at `at`.
std::optional<uint32_t> code_unit(std::string_view text, size_t at) {
  if (text.substr(at, 2) != "\\u" || at + 6 > text.size()) return std::nullopt;
  uint32_t unit = 0;
  const auto* first = text.data() + at + 2;
  const auto [end, error] = std::from_chars(first, first + 4, unit, 16);
  if (error != std::errc() || end != first + 4) return std::nullopt;
  return unit;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

/// Appends the character of the escape at `at` and returns the escape's length; 0 if it is invalid.
size_t append_escape(std::string& text, std::string_view quoted, size_t at) {
  constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  if (at + 1 >= quoted.size()) return 0;
  if (const size_t letter = letters.find(quoted[at + 1]); letter != std::string_view::npos) {
    text += meanings[letter];
    return 2;
  }
  const auto high = code_unit(quoted, at);
  if (!high) return 0;
  if (*high < 0xd800 || *high > 0xdfff) {
    append_utf8(text, *high);
    return 6;
  }
  const auto low = code_unit(quoted, at + 6);
  if (*high > 0xdbff || !low || *low < 0xdc00 || *low > 0xdfff) return 0;
  append_utf8(text, 0x10000 + ((*high - 0xd800) << 10) + (*low - 0xdc00));
  return 12;
}

}  // namespace

std::string unescaped(std::string_view quoted) {
  std::string text;
  for (size_t at = 0; at < quoted.size();) {
    const size_t length = quoted[at] == '\\' ? append_escape(text, quoted, at) : 0;
    if (length == 0) text += quoted[at];
    at += length == 0 ? 1 : length;
  }
  return text;
}

uint32_t NameTable::intern(std::string_view word) {
  if (const auto found = numbers_.find(word); found != numbers_.end()) return found->second;
  const auto& kept = words_.emplace_back(word);
  return numbers_.emplace(kept, size() - 1).first->second;
}

uint32_t NameTable::intern_json(std::string_view quoted) {
  if (quoted.find('\\') == std::string_view::npos) return intern(quoted);
  if (const auto found = escaped_numbers_.find(quoted); found != escaped_numbers_.end())
    return found->second;
  const uint32_t number = intern(unescaped(quoted));
  escaped_numbers_.emplace(escaped_.emplace_back(quoted), number);
  return number;
}

}  // namespace composer
