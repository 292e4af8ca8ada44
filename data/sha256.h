// SHA-256 (FIPS 180-4), by OpenSSL: names pixels and files by their content.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace composer {

/// All functions throw RunError when OpenSSL refuses, as where its configuration forbids SHA-256.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const uint8_t> bytes);
  /// Ends the message; the object must not be used afterwards.
  std::array<uint8_t, 32> digest();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// 64 lower-case hexadecimal digits.
std::string to_hex(const std::array<uint8_t, 32>& digest);

/// Of the whole message, as to_hex writes it.
std::string sha256_hex(std::span<const uint8_t> bytes);

}  // namespace composer
