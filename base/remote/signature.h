// AWS Signature Version 4, which authenticates requests.
#pragma once

#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace composer {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

/// 64 lower-case hexadecimal digits of the bytes' SHA-256. RunError when OpenSSL refuses.
std::string payload_hash(std::span<const uint8_t> bytes);

/// The value in place of a hash when TLS already protects the body.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

struct SignedRequest {
  std::string method;
  std::string path;   ///< percent-encoded once, beginning with '/'
  TextPairs query;    ///< not encoded, in any order
  TextPairs headers;  ///< the headers to sign, with host; names in any case
  std::string payload_hash;
};

struct SigningKey {
  std::string key_id, secret, region, service;
};

/// "20150830T123600Z", for the header x-amz-date.
std::string amazon_time(std::time_t time);

/// The query in the signature's form: names and values encoded and sorted, each with its '='.
std::string canonical_query(const TextPairs& query);

/// The value of the header Authorization.
std::string authorization(const SignedRequest& request, const SigningKey& key, std::time_t time);

}  // namespace composer
