#include "base/remote/remote_path.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "base/url_secrets.h"

namespace composer {
namespace {

/// S3's limit for keys.
constexpr size_t kLongestKey = 1024;

/// The text by which url_secrets.h replaces secrets.
constexpr std::string_view kHidden = "***";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_letter_or_digit(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }
bool is_control(char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }

bool is_host_character(char c) { return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_'; }

/// The offset of "://" behind a scheme; npos without a scheme.
size_t scheme_end(std::string_view text) {
  const size_t end = text.find("://");
  if (end == 0 || end == std::string_view::npos || !is_letter(text[0])) return text.npos;
  const auto word = text.substr(0, end);
  const bool fits = std::ranges::all_of(
      word, [](char c) { return is_letter_or_digit(c) || c == '+' || c == '.' || c == '-'; });
  return fits ? end : text.npos;
}

std::string beginning(RemotePath::Scheme scheme) {
  using Scheme = RemotePath::Scheme;
  return scheme == Scheme::s3 ? "s3://" : scheme == Scheme::https ? "https://" : "http://";
}

/// Whether a query's parameter of this name signs the request, rather than selects an object.
bool signs(std::string_view name) {
  static const auto names = separated(
      "access_token,awsaccesskeyid,expires,googleaccessid,key-pair-id,policy,se,security-token,sig,"
      "signature,sip,ske,skoid,sks,skt,sktid,skv,sp,spr,sr,st,sv,token",
      ',');
  const std::string word = lower_case(std::string(name));
  return word.starts_with("x-amz-") || word.starts_with("x-goog-") ||
         std::ranges::find(names, word) != names.end();
}

/// The text, without secrets, for messages about a text that does not parse.
std::string shown(std::string_view text) {
  // Secrets that were not encoded may hold any character: all before the last '@' may be one.
  std::string result(text);
  const size_t begin = scheme_end(result), at = result.rfind('@');
  if (begin != std::string::npos && at != std::string::npos && at >= begin + 3)
    result.erase(begin + 3, at + 1 - (begin + 3));
  result.erase(std::min(result.find('?'), result.size()));
  std::replace_if(result.begin(), result.end(), is_control, '?');
  return result;
}

void expect_bucket(const std::string& bucket, std::string_view text) {
  if (bucket.empty())
    throw UserError(shown(text) + ": the bucket is missing; s3://bucket/key is right");
  const bool ends = is_letter_or_digit(bucket.front()) && is_letter_or_digit(bucket.back());
  if (bucket.size() < 3 || bucket.size() > 255 || !ends ||
      !std::ranges::all_of(bucket, is_host_character))
    throw UserError(shown(text) + ": '" + shown(bucket.substr(bucket.rfind('@') + 1)) +
                    "' is no name of a bucket: 3 to 63 lower-case letters, digits, '.' and '-'");
}

void expect_host(std::string_view host_port, std::string_view text) {
  const auto wrong = [&](const std::string& what) { return UserError(shown(text) + ": " + what); };
  size_t end = host_port.find(':');
  if (!host_port.empty() && host_port[0] == '[') {
    const size_t close = host_port.find(']');
    if (close == host_port.npos ||
        host_port.find_first_not_of("0123456789abcdefABCDEF:.", 1) != close)
      throw wrong("the host is no address");
    end = close + 1 < host_port.size() ? close + 1 : host_port.npos;
  } else {
    const auto host = host_port.substr(0, end);
    if (host.empty()) throw wrong("the host is missing; https://host/path is right");
    if (!std::ranges::all_of(host, is_host_character))
      throw wrong("the host has characters that no host's name has");
  }
  if (end == host_port.npos) return;
  const auto port = host_port.substr(end + 1);
  if (host_port[end] != ':' || to_number<uint16_t>(port).value_or(0) == 0)
    throw wrong("the port is a number from 1 to 65535");
}

}  // namespace

std::string percent_encoded(std::string_view text, std::string_view also) {
  std::string result;
  for (const char c : text) {
    if (is_host_character(c) || c == '~' || also.find(c) != also.npos) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += '%';
      result += "0123456789ABCDEF"[byte >> 4];
      result += "0123456789ABCDEF"[byte & 15];
    }
  }
  return result;
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char* const digits = text.data() + i + 1;
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      result += static_cast<char>(byte);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

bool is_remote(std::string_view text) { return scheme_end(text) != text.npos; }

std::string shown_path(const std::string& path) {
  return is_remote(path) ? RemotePath(path).text() : path;
}

RemotePath::RemotePath(std::string_view text) {
  const size_t end = scheme_end(text);
  if (end == text.npos)
    throw UserError(shown(text) + ": no path of a store; s3://bucket/key or https://host/path is");
  if (std::any_of(text.begin(), text.end(), is_control))
    throw UserError(shown(text) + ": control characters stand in no path");
  const std::string word = lower_case(std::string(text.substr(0, end)));
  if (word == "s3") {
    scheme_ = Scheme::s3;
  } else if (word == "https") {
    scheme_ = Scheme::https;
  } else if (word == "http") {
    scheme_ = Scheme::http;
  } else if (word == "file") {
    throw UserError(shown(text) + ": local files are named by their plain path, without file://");
  } else {
    throw UserError(shown(text) + ": " + word +
                    ":// is not known; s3:// (any S3-compatible store, by AWS_ENDPOINT_URL), "
                    "https:// and http:// are");
  }
  const auto rest = text.substr(end + 3);
  const size_t slash =
      std::min(scheme_ == Scheme::s3 ? rest.find('/') : rest.find_first_of("/?#"), rest.size());
  host_ = rest.substr(0, slash);
  key_ = rest.substr(std::min(slash + (slash < rest.size() && rest[slash] == '/'), rest.size()));
  if (scheme_ == Scheme::s3) {
    expect_bucket(host_, text);
    if (key_.size() > kLongestKey)
      throw UserError(shown(text).substr(0, 100) + "...: a key has at most 1024 bytes, this one " +
                      std::to_string(key_.size()));
    return;
  }
  if (const size_t at = host_.rfind('@'); at != host_.npos) {
    userinfo_ = host_.substr(0, at);
    host_.erase(0, at + 1);
  }
  expect_host(host_, text);
  if (userinfo_ == kHidden || key_.ends_with("?" + std::string(kHidden)))
    throw UserError(shown(text) +
                    ": its user, password or query is not kept in recipes and checkpoints; give "
                    "the whole address anew");
  host_ = lower_case(host_);
  if (key_.find('#') != key_.npos)
    throw UserError(shown(text) + ": a '#' within a path of a web server is written %23");
  // Characters that no URL has are encoded for the user; those with a meaning (%, ?) stay.
  key_ = percent_encoded(key_, "%/?:@!$&'()*+,;=[]");
}

size_t RemotePath::query_offset() const {
  return scheme_ == Scheme::s3 ? key_.size() : std::min(key_.find('?'), key_.size());
}

bool RemotePath::is_folder() const {
  const size_t end = query_offset();
  return end == 0 || key_[end - 1] == '/';
}

std::string RemotePath::name() const {
  if (scheme_ == Scheme::s3) return key_.substr(key_.rfind('/') + 1);
  const std::string path = key_.substr(0, query_offset());
  const std::string last = path.substr(path.rfind('/') + 1);
  const std::string decoded = percent_decoded(last);
  return decoded.find('/') == decoded.npos ? decoded : last;
}

RemotePath RemotePath::operator/(std::string_view name) const {
  RemotePath result = *this;
  result.key_.erase(query_offset());
  if (!result.key_.empty() && result.key_.back() != '/') result.key_ += '/';
  result.key_ += scheme_ == Scheme::s3 ? std::string(name) : percent_encoded(name, "/");
  result.key_ += key_.substr(query_offset());
  return result;
}

RemotePath RemotePath::with_key(std::string key) const {
  RemotePath result = *this;
  result.key_ = std::move(key);
  return result;
}

std::string RemotePath::text() const {
  std::string key = key_.substr(0, query_offset());
  std::ranges::replace_if(key, is_control, '?');
  return beginning(scheme_) + host_ + "/" + key;
}

std::string RemotePath::identity() const {
  const size_t mark = scheme_ == Scheme::s3 ? key_.npos : key_.find('?');
  if (mark == key_.npos) return text();
  std::string kept;
  for (const auto parameter : separated(std::string_view(key_).substr(mark + 1), '&'))
    if (!parameter.empty() && !signs(parameter.substr(0, parameter.find('='))))
      kept.append(1, '&').append(parameter);
  return kept.empty() ? text() : text() + "?" + std::to_string(fnv1a(kept));
}

std::string address_of(const RemotePath& path) {
  return beginning(path.scheme()) + (path.userinfo().empty() ? "" : path.userinfo() + "@") +
         path.host() + "/" + path.key();
}

std::string address_below(const std::string& folder, const std::string& name) {
  const bool has_query = !folder.starts_with("s3:");
  const size_t end = has_query ? std::min(folder.find('?'), folder.size()) : folder.size();
  const std::string query = has_query && name.find('?') != name.npos ? "" : folder.substr(end);
  const std::string path = folder.substr(0, end);
  return path + (path.ends_with('/') ? "" : "/") + name + query;
}

std::string local_folder_problem(const std::string& folder) {
  if (is_remote(folder))
    return "must be a folder of this machine, not '" + address_without_secrets(folder) + "'";
  if (const size_t at = folder.starts_with('$') ? 0 : folder.find("/$"); at != std::string::npos) {
    const size_t begin = folder.find('$', at);
    return "'" + folder + "': only a shell puts a variable's value in the place of " +
           folder.substr(begin, folder.find('/', begin) - begin) + "; give the path";
  }
  if (folder != "~" && !folder.starts_with("~/")) return "";
  const char* const home = std::getenv("HOME");
  return "'" + folder + "': only a shell puts the home folder in the place of ~; give " +
         (home == nullptr ? std::string("its path") : "'" + (home + folder.substr(1)) + "'");
}

}  // namespace composer
