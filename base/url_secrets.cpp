#include "base/url_secrets.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/text.h"

namespace composer {
namespace {

constexpr std::string_view kMasked = "***";

bool is_one_of(char c, std::string_view set) { return set.find(c) != set.npos; }

/// Whether the scheme of a web server's address ends at the offset `at`.
bool ends_scheme(std::string_view text, size_t at) {
  const size_t size = std::min<size_t>(at, 5);
  const std::string word = lower_case(std::string(text.substr(at - size, size)));
  return word == "https" || word.ends_with("http");
}

/// The end of the address that contains the offset `at`.
size_t address_end(std::string_view text, size_t at) {
  constexpr std::string_view kEnds = " \t\r\n\"<>`", kAfterQuote = " \t\r\n,;:.)]}";
  for (; at < text.size() && !is_one_of(text[at], kEnds); ++at)
    if (text[at] == '\'' && (at + 1 == text.size() || is_one_of(text[at + 1], kAfterQuote))) break;
  return at;
}

bool is_host(std::string_view text) {
  const size_t colon = text.starts_with('[') ? text.npos : text.find(':');
  return colon == text.npos || text.find_first_not_of("0123456789", colon + 1) == text.npos;
}

/// Masks the secrets of an address. begin: the offset of its host, or userinfo. end: the address's
/// end, which moves with the text.
void mask(std::string& text, size_t begin, size_t& end) {
  const auto replace = [&](size_t from, size_t to) {
    text.replace(from, to - from, kMasked);
    end = end - (to - from) + kMasked.size();
  };
  const auto last_at = [&](size_t before) {
    const size_t at = text.substr(begin, before - begin).rfind('@');
    return at == text.npos ? text.npos : begin + at;
  };
  const size_t slash = std::min(text.find_first_of("/?#", begin), end);
  size_t at = last_at(slash);
  // A password that was not encoded may hold any character.
  if (at == text.npos && !is_host(std::string_view(text).substr(begin, slash - begin)))
    at = last_at(end);
  if (at != text.npos) replace(begin, at);
  const size_t mark = text.find('?', begin);
  size_t stop = end;
  while (stop > begin && is_one_of(text[stop - 1], ".,:;)]}")) --stop;
  if (mark < stop && mark + 1 < stop) replace(mark + 1, stop);
}

}  // namespace

std::string without_secrets(std::string text) {
  for (size_t at = 0; (at = text.find("://", at)) != text.npos;) {
    const size_t begin = at + 3;
    at = begin;
    if (!ends_scheme(text, begin - 3)) continue;
    size_t end = address_end(text, begin);
    mask(text, begin, end);
  }
  return text;
}

std::string address_without_secrets(std::string text) {
  const size_t at = text.find("://");
  if (at != text.npos && text.find_first_of(" /@") > at && ends_scheme(text, at)) {
    size_t end = text.size();
    mask(text, at + 3, end);
  }
  return without_secrets(std::move(text));
}

}  // namespace composer
