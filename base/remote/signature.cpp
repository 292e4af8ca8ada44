#include "base/remote/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/remote/remote_path.h"
#include "base/text.h"

namespace composer {
namespace {

using Digest = std::array<uint8_t, 32>;

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Digest hmac(std::span<const uint8_t> key, std::string_view message) {
  Digest digest;
  unsigned size = 0;
  const auto bytes = bytes_of(message);
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes.data(), bytes.size(),
           digest.data(), &size) == nullptr ||
      size != digest.size())
    throw RunError("OpenSSL cannot compute HMAC-SHA256 here");
  return digest;
}

/// The value without spaces at its ends, and with single spaces within.
std::string with_single_spaces(std::string_view value) {
  std::string result;
  bool space = false;
  for (const char c : value) {
    if (c == ' ' || c == '\t') {
      space = !result.empty();
    } else {
      if (space) result += ' ';
      space = false;
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string payload_hash(std::span<const uint8_t> bytes) {
  Digest digest;
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1 ||
      size != digest.size())
    throw RunError("OpenSSL cannot compute SHA-256 here");
  return hex(digest);
}

std::string amazon_time(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[24];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

std::string canonical_query(const TextPairs& query) {
  TextPairs encoded;
  for (const auto& [name, value] : query)
    encoded.emplace_back(percent_encoded(name), percent_encoded(value));
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded) text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::string authorization(const SignedRequest& request, const SigningKey& key, std::time_t time) {
  TextPairs headers;
  for (const auto& [name, value] : request.headers)
    headers.emplace_back(lower_case(name), with_single_spaces(value));
  std::ranges::stable_sort(headers, {}, [](const auto& header) { return header.first; });
  std::string lines, names;
  for (size_t i = 0; i < headers.size(); ++i) {
    const auto& [name, value] = headers[i];
    if (i > 0 && headers[i - 1].first == name) {
      lines.back() = ',';
      lines += value + "\n";
      continue;
    }
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = request.method + "\n" + request.path + "\n" +
                                canonical_query(request.query) + "\n" + lines + "\n" + names +
                                "\n" + request.payload_hash;
  const std::string date_time = amazon_time(time), date = date_time.substr(0, 8);
  const std::string scope = date + "/" + key.region + "/" + key.service + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + date_time + "\n" + scope + "\n" + payload_hash(bytes_of(canonical));
  Digest signer = hmac(bytes_of("AWS4" + key.secret), date);
  for (const std::string_view part : {std::string_view(key.region), std::string_view(key.service),
                                      std::string_view("aws4_request")})
    signer = hmac(signer, part);
  return "AWS4-HMAC-SHA256 Credential=" + key.key_id + "/" + scope + ", SignedHeaders=" + names +
         ", Signature=" + hex(hmac(signer, to_sign));
}

}  // namespace composer
