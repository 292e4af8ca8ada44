#include "data/sha256.h"

#include <openssl/evp.h>

#include "composer/error.h"

namespace composer {
namespace {

void expect(bool done) {
  if (!done) throw RunError("OpenSSL cannot compute SHA-256 here");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  expect(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::update(std::span<const uint8_t> bytes) {
  expect(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::array<uint8_t, 32> Sha256::digest() {
  std::array<uint8_t, 32> result;
  expect(EVP_DigestFinal_ex(context_.get(), result.data(), nullptr) == 1);
  return result;
}

std::string to_hex(const std::array<uint8_t, 32>& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::span<const uint8_t> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return to_hex(hash.digest());
}

}  // namespace composer
