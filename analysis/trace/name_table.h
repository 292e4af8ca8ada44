// The words of a trace, each kept once.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace composer {

/// Words by number, in the order in which they first came.
class NameTable {
 public:
  /// The number of `word`.
  uint32_t intern(std::string_view word);

  /// The same of what stands between the quotes of a JSON string, escapes included.
  uint32_t intern_json(std::string_view quoted);

  std::string_view operator[](uint32_t number) const { return words_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(words_.size()); }

 private:
  std::deque<std::string> words_;
  std::deque<std::string> escaped_;
  std::unordered_map<std::string_view, uint32_t> numbers_, escaped_numbers_;
};

/// What a JSON string of these letters between its quotes says, in UTF-8. Escapes that are none,
/// and halves of surrogate pairs, stay as they are.
std::string unescaped(std::string_view quoted);

}  // namespace composer
