// A file with JSON text, compressed by gzip or not, of which a piece at a time is in memory, and a
// cursor in the text.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

struct gzFile_s;

namespace composer {

/// Holds one piece of the text in memory: 4 MiB, or more for a longer value.
class TextSource {
 public:
  /// UserError when the file cannot be read.
  explicit TextSource(std::filesystem::path file);

  const char* begin() const { return buffer_.data(); }
  const char* end() const { return buffer_.data() + filled_; }
  /// The offset of begin() in the uncompressed text.
  int64_t offset() const { return offset_; }

  /// Drops the text before `keep`, which becomes begin(), and reads more text behind the rest.
  /// Returns false at the end of the text. UserError for a damaged file, and for a value longer
  /// than 256 MiB.
  bool refill(const char* keep);

 private:
  struct Closing {
    void operator()(gzFile_s* file) const;
  };

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Closing> file_;
  std::vector<char> buffer_;
  size_t filled_ = 0;
  int64_t offset_ = 0;
};

/// Thrown if the text in memory ends before the value does. With more text, the reader tries again
/// from the same position.
struct EndOfText {};

/// Thrown if the text is no JSON.
struct BadJson {
  const char* at;
  const char* expected;  ///< what JSON wants at this position
};

/// Reads JSON from front to back. Values that are read are checked strictly; in skipped values
/// brackets must match, and words and numbers may be anything (Kineto writes "NaN").
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

  /// Moves past the next character if it is `letter`; returns whether it was.
  bool take(char letter) {
    if (peek() != letter) return false;
    ++at_;
    return true;
  }

  void expect(char letter, const char* what) {
    if (!take(letter)) throw BadJson{at_, what};
  }

  /// The text between the quotes of a string, with its escapes.
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

  /// The text of a number or a bare word.
  std::string_view scalar();

  /// The text of any value.
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

/// Nanoseconds from `text`, a JSON number of microseconds. The first three decimals are exact,
/// further ones are rounded. Throws BadJson if `text` is no number or is more than 2^63 ns.
int64_t nanoseconds_of(std::string_view text);

/// The integer in `text`, a JSON number or a string of one ("7.0" is 7); `otherwise` if there is
/// none.
int64_t integer_of(std::string_view text, int64_t otherwise);

}  // namespace composer
