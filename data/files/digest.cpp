#include "data/files/digest.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/error.h"
#include "data/files/xxh64.h"

namespace composer {
namespace {

constexpr const char* kXxh64 = "xxh64";

using Context = std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)>;

/// Null where there is none of the name.
const EVP_MD* algorithm_named(std::string name) {
  std::ranges::replace(name, '_', '-');
  if (name == "blake2b") name = "blake2b512";
  if (name == "blake2s") name = "blake2s256";
  return EVP_get_digestbyname(name.c_str());
}

/// Null where OpenSSL cannot compute it.
Context begun(const std::string& algorithm) {
  Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const EVP_MD* const known = algorithm_named(algorithm);
  const bool begins = context != nullptr && known != nullptr &&
                      EVP_DigestInit_ex(context.get(), known, nullptr) == 1;
  if (!begins) context.reset();
  return context;
}

}  // namespace

bool Digest::knows(const std::string& algorithm) {
  // Names are known also of what no provider that is loaded computes.
  return algorithm == kXxh64 || begun(algorithm) != nullptr;
}

Digest::Digest(const std::string& algorithm)
    : algorithm_(algorithm),
      xxh64_(algorithm == kXxh64 ? std::make_unique<Xxh64>() : nullptr),
      context_(begun(algorithm)) {
  if (!xxh64_ && !context_) throw RunError("OpenSSL cannot compute " + algorithm + " here");
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const uint8_t> bytes) {
  if (xxh64_) return xxh64_->update(bytes);
  if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1)
    throw RunError("OpenSSL cannot compute " + algorithm_ + " here");
}

std::string Digest::hex() {
  if (xxh64_) return xxh64_->hex();
  uint8_t digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context_.get(), digest, &size) != 1)
    throw RunError("OpenSSL cannot compute " + algorithm_ + " here");
  std::string text;
  for (const uint8_t byte : std::span(digest).first(size)) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::span<const uint8_t> bytes) {
  Digest hash("sha256");
  hash.update(bytes);
  return hash.hex();
}

}  // namespace composer
