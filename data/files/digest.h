// Message digests, by OpenSSL, and XXH64: they name pixels and files by their content.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace composer {

class Xxh64;

/// All functions throw RunError when OpenSSL refuses, for instance because its configuration
/// forbids the algorithm.
class Digest {
 public:
  /// Whether the algorithm exists and is not forbidden. Names are those of Python's hashlib,
  /// sha256, sha3_512, md5, and xxh64.
  static bool knows(const std::string& algorithm);

  /// algorithm: one for which knows() is true.
  explicit Digest(const std::string& algorithm);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  void update(std::span<const uint8_t> bytes);
  /// Lower-case hexadecimal digits. Ends the message; the object must not be used afterwards.
  std::string hex();

 private:
  std::string algorithm_;
  std::unique_ptr<Xxh64> xxh64_;  ///< null for OpenSSL's algorithms
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// The SHA-256 of a whole message, in hexadecimal digits.
std::string sha256_hex(std::span<const uint8_t> bytes);

}  // namespace composer
