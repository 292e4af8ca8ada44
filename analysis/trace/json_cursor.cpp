#include "analysis/trace/json_cursor.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace composer {
namespace {

constexpr size_t kPiece = size_t{4} << 20, kLongestValue = size_t{256} << 20;

constexpr auto ends_scalar = [] {
  std::array<bool, 256> ends{};
  for (const char letter : {',', ']', '}', ':', ' ', '\n', '\r', '\t', '"', '[', '{', '\0'})
    ends[static_cast<unsigned char>(letter)] = true;
  return ends;
}();

constexpr auto shapes_nesting = [] {
  std::array<bool, 256> shapes{};
  for (const char letter : {'[', ']', '{', '}', '"'})
    shapes[static_cast<unsigned char>(letter)] = true;
  return shapes;
}();

/// Nanoseconds from a number of microseconds that is not plain digits, for example 1e3.
int64_t unusual_nanoseconds(std::string_view text) {
  double microseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  if (error != std::errc() || end != text.data() + text.size())
    throw BadJson{text.data(), "a number of microseconds"};
  const double nanoseconds = std::round(microseconds * 1000);
  if (!(std::abs(nanoseconds) < static_cast<double>(std::numeric_limits<int64_t>::max())))
    throw BadJson{text.data(), "a time below 292 years"};
  return static_cast<int64_t>(nanoseconds);
}

}  // namespace

void TextSource::Closing::operator()(gzFile_s* file) const { gzclose(file); }

TextSource::TextSource(std::filesystem::path file) : path_(std::move(file)) {
  if (!std::filesystem::is_regular_file(path_))
    throw UserError(path_.string() + ": is no file; a trace is a .json or .json.gz file");
  file_.reset(gzopen(path_.c_str(), "rb"));
  if (!file_) throw UserError(path_.string() + ": cannot be read: " + std::strerror(errno));
  gzbuffer(file_.get(), 256 << 10);
}

bool TextSource::refill(const char* keep) {
  const size_t dropped = keep - buffer_.data();
  filled_ -= dropped;
  if (filled_ > 0) std::memmove(buffer_.data(), keep, filled_);
  offset_ += static_cast<int64_t>(dropped);
  if (filled_ == buffer_.size()) {
    if (buffer_.size() >= kLongestValue)
      throw UserError(path_.string() + ": at byte " + std::to_string(offset_) +
                      ": a value of more than 256 MiB");
    buffer_.resize(buffer_.empty() ? kPiece : 2 * buffer_.size());
  }
  const int read = gzread(file_.get(), buffer_.data() + filled_,
                          static_cast<unsigned>(buffer_.size() - filled_));
  if (read < 0) {
    int number = 0;
    const std::string reason = gzerror(file_.get(), &number);
    throw UserError(path_.string() + ": damaged behind byte " +
                    std::to_string(offset_ + static_cast<int64_t>(filled_)) +
                    " of the uncompressed text: " + reason);
  }
  filled_ += read;
  return read > 0;
}

std::string_view JsonCursor::scalar() {
  peek();
  const char* const begin = at_;
  while (at_ != end_ && !ends_scalar[static_cast<unsigned char>(*at_)]) ++at_;
  if (at_ == end_) throw EndOfText();
  if (at_ == begin) throw BadJson{at_, "a value"};
  return {begin, at_};
}

std::string_view JsonCursor::value() {
  const char first = peek();
  const char* const begin = at_;
  if (first == '"')
    string();
  else if (first == '{' || first == '[')
    skip_nested();
  else
    scalar();
  return {begin, at_};
}

void JsonCursor::skip_nested() {
  constexpr int kDeepest = 64;
  uint64_t objects = 0;  // a bit per level, the innermost lowest: 1 for an object
  int depth = 0;
  do {
    while (at_ != end_ && !shapes_nesting[static_cast<unsigned char>(*at_)]) ++at_;
    if (at_ == end_) throw EndOfText();
    switch (*at_) {
      case '"':
        string();
        break;
      case '{':
      case '[':
        if (++depth > kDeepest) throw BadJson{at_, "at most 64 brackets in one another"};
        objects = (objects << 1) | (*at_++ == '{');
        break;
      default:
        if ((*at_ == '}') != ((objects & 1) != 0))
          throw BadJson{at_, (objects & 1) != 0 ? "'}'" : "']'"};
        objects >>= 1;
        --depth;
        ++at_;
    }
  } while (depth > 0);
}

int64_t nanoseconds_of(std::string_view text) {
  constexpr int64_t most = (std::numeric_limits<int64_t>::max() - 9) / 10;
  const bool negative = text.starts_with('-');
  int64_t digits = 0;
  int decimals = -1;  // digits after the point; -1 before it
  bool rounds_up = false;
  for (const char letter : text.substr(negative ? 1 : 0)) {
    if (letter == '.' && decimals < 0) {
      decimals = 0;
    } else if (letter < '0' || letter > '9' || digits > most) {
      return unusual_nanoseconds(text);
    } else if (decimals < 3) {
      digits = digits * 10 + (letter - '0');
      if (decimals >= 0) ++decimals;
    } else if (decimals++ == 3) {
      rounds_up = letter >= '5';
    }
  }
  if (text.size() == (negative ? 1U : 0U)) throw BadJson{text.data(), "a number of microseconds"};
  for (int i = decimals < 0 ? 0 : decimals; i < 3; ++i)
    if (__builtin_mul_overflow(digits, 10, &digits))
      throw BadJson{text.data(), "a time below 292 years"};
  digits += rounds_up ? 1 : 0;
  return negative ? -digits : digits;
}

int64_t integer_of(std::string_view text, int64_t otherwise) {
  if (text.size() >= 2 && text.starts_with('"')) text = text.substr(1, text.size() - 2);
  int64_t number = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto rest = text.substr(end - text.data());
  const bool whole = rest.empty() || (rest.starts_with('.') && rest.size() > 1 &&
                                      rest.find_first_not_of('0', 1) == std::string_view::npos);
  return error == std::errc() && whole ? number : otherwise;
}

}  // namespace composer
