// Message digests, by OpenSSL, and XXH64: they name pixels and files by their content.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace composer {

class Xxh64;

/// All functions throw RunError when OpenSSL refuses, as where its configuration forbids the
/// algorithm.
class Digest {
 public:
  /// Whether there is such an algorithm, and it is not forbidden. Names are those of Python's
  /// hashlib, sha256, sha3_512, md5, and xxh64.
  static bool knows(const std::string& algorithm);

  /// algorithm: one that is known.
  explicit Digest(const std::string& algorithm);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  void update(std::span<const uint8_t> bytes);
  /// Lower-case hexadecimal digits. Ends the message; the object must not be used afterwards.
  std::string hex();

 private:
  std::string algorithm_;
  std::unique_ptr<Xxh64> xxh64_;  ///< else null
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// Of the whole message.
std::string sha256_hex(std::span<const uint8_t> bytes);

}  // namespace composer
