// A place in JSON text of which only a part is in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace composer {

/// Thrown where the text in memory ends before what was asked for does: with more of it, the
/// reader asks again from the same place.
struct EndOfText {};

/// Thrown where the text is no JSON.
struct BadJson {
  const char* at;
  const char* expected;  ///< what would have been right
};

/// Reads JSON from front to back. What is asked for is looked at strictly; in what is skipped,
/// brackets must match, and words and numbers may be anything ("NaN", which Kineto writes).
class JsonCursor {
 public:
  JsonCursor(const char* begin, const char* end) : at_(begin), end_(end) {}

  const char* at() const { return at_; }

  /// The next character that is no space.
  char peek() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
    if (at_ == end_) throw EndOfText();
    return *at_;
  }

  /// Whether the next character is `letter`, which then is behind.
  bool take(char letter) {
    if (peek() != letter) return false;
    ++at_;
    return true;
  }

  void expect(char letter, const char* what) {
    if (!take(letter)) throw BadJson{at_, what};
  }

  /// What stands between the quotes of a string, escapes as they are.
  std::string_view string() {
    expect('"', "a string");
    const char* const begin = at_;
    for (const char* from = begin;;) {
      const auto* quote = static_cast<const char*>(std::memchr(from, '"', end_ - from));
      if (quote == nullptr) throw EndOfText();
      if (quote == begin || quote[-1] != '\\' || !escaped(begin, quote)) {
        at_ = quote + 1;
        return {begin, quote};
      }
      from = quote + 1;
    }
  }

  /// A number or a bare word, as it is written.
  std::string_view scalar();

  /// Any value, as it is written.
  std::string_view value();

  /// Calls each(name) for every member of an object, in the order of the text; `each` reads its
  /// value.
  template <class Each>
  void members(Each&& each) {
    expect('{', "an object");
    if (take('}')) return;
    do {
      const auto name = string();
      expect(':', "':'");
      each(name);
    } while (take(','));
    expect('}', "',' or '}'");
  }

 private:
  static bool escaped(const char* begin, const char* quote) {
    const char* first = quote;
    while (first != begin && first[-1] == '\\') --first;
    return (quote - first) % 2 != 0;
  }

  void skip_nested();

  const char* at_;
  const char* end_;
};

/// What `text`, a JSON number of microseconds, is in nanoseconds, from its decimal digits, so that
/// three of them after the point are exact; further ones are rounded. Throws BadJson for no
/// number and for more than 2^63 ns.
int64_t nanoseconds_of(std::string_view text);

/// `text`, a JSON number or a string of one, as an integer ("7.0" is 7); what is none is
/// `otherwise`.
int64_t integer_of(std::string_view text, int64_t otherwise);

}  // namespace composer
