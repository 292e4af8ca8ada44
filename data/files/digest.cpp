#include "data/files/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace composer {
namespace {

constexpr const char* kXxh64 = "xxh64";

using Context = std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)>;

/// Null for an unknown name.
const EVP_MD* algorithm_named(std::string name) {
  std::ranges::replace(name, '_', '-');
  if (name == "blake2b") name = "blake2b512";
  if (name == "blake2s") name = "blake2s256";
  return EVP_get_digestbyname(name.c_str());
}

/// Null when OpenSSL cannot compute it.
Context begun(const std::string& algorithm) {
  Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const EVP_MD* const known = algorithm_named(algorithm);
  const bool begins = context != nullptr && known != nullptr &&
                      EVP_DigestInit_ex(context.get(), known, nullptr) == 1;
  if (!begins) context.reset();
  return context;
}

constexpr uint64_t kXxhPrimes[] = {0x9E3779B185EBCA87u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u,
                                   0x85EBCA77C2B2AE63u, 0x27D4EB2F165667C5u};

template <class T>
uint64_t word_at(const uint8_t* at) {
  T word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint64_t lane_after(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kXxhPrimes[1], 31) * kXxhPrimes[0];
}

void take_stripe(std::array<uint64_t, 4>& lanes, const uint8_t* at) {
  for (size_t i = 0; i < lanes.size(); ++i)
    lanes[i] = lane_after(lanes[i], word_at<uint64_t>(at + 8 * i));
}

uint64_t joined_lanes(const std::array<uint64_t, 4>& lanes) {
  uint64_t sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                 std::rotl(lanes[3], 18);
  for (const uint64_t lane : lanes)
    sum = (sum ^ lane_after(0, lane)) * kXxhPrimes[0] + kXxhPrimes[3];
  return sum;
}

/// Adds the last bytes, which fill no whole stripe.
uint64_t with_rest(uint64_t sum, std::span<const uint8_t> rest) {
  for (; rest.size() >= 8; rest = rest.subspan(8))
    sum = std::rotl(sum ^ lane_after(0, word_at<uint64_t>(rest.data())), 27) * kXxhPrimes[0] +
          kXxhPrimes[3];
  for (; rest.size() >= 4; rest = rest.subspan(4))
    sum = std::rotl(sum ^ word_at<uint32_t>(rest.data()) * kXxhPrimes[0], 23) * kXxhPrimes[1] +
          kXxhPrimes[2];
  for (const uint8_t byte : rest) sum = std::rotl(sum ^ byte * kXxhPrimes[4], 11) * kXxhPrimes[0];
  return sum;
}

}  // namespace

/// XXH64 (Collet, XXH64 of xxHash's specification) with the seed 0: a fast hash that tells damage,
/// not forgery. MosaicML's shards may have it.
class Xxh64 {
 public:
  void update(std::span<const uint8_t> bytes);
  /// The hash of all bytes so far: 16 lower-case hexadecimal digits, the most significant first.
  std::string hex() const;

 private:
  std::array<uint64_t, 4> lanes_{kXxhPrimes[0] + kXxhPrimes[1], kXxhPrimes[1], 0,
                                 0 - kXxhPrimes[0]};
  std::array<uint8_t, 32> rest_{};  ///< the bytes of an unfinished stripe
  uint64_t bytes_ = 0;
};

void Xxh64::update(std::span<const uint8_t> bytes) {
  const size_t held = bytes_ % rest_.size();
  bytes_ += bytes.size();
  if (held > 0) {
    const auto taken = bytes.first(std::min(bytes.size(), rest_.size() - held));
    std::ranges::copy(taken, rest_.begin() + static_cast<ptrdiff_t>(held));
    bytes = bytes.subspan(taken.size());
    if (held + taken.size() < rest_.size()) return;
    take_stripe(lanes_, rest_.data());
  }
  for (; bytes.size() >= rest_.size(); bytes = bytes.subspan(rest_.size()))
    take_stripe(lanes_, bytes.data());
  std::ranges::copy(bytes, rest_.begin());
}

std::string Xxh64::hex() const {
  uint64_t sum = (bytes_ < rest_.size() ? kXxhPrimes[4] : joined_lanes(lanes_)) + bytes_;
  sum = with_rest(sum, std::span(rest_).first(bytes_ % rest_.size()));
  sum = (sum ^ sum >> 33) * kXxhPrimes[1];
  sum = (sum ^ sum >> 29) * kXxhPrimes[2];
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum ^ sum >> 32));
  return text;
}

bool Digest::knows(const std::string& algorithm) {
  // OpenSSL knows names of algorithms that no loaded provider computes.
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
