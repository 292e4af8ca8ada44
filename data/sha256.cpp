#include "data/sha256.h"

#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace composer {
namespace {

alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress(std::array<uint32_t, 8>& state, const uint8_t* block) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t)
    w[t] = uint32_t{block[4 * t]} << 24 | uint32_t{block[4 * t + 1]} << 16 |
           uint32_t{block[4 * t + 2]} << 8 | block[4 * t + 3];
  for (int t = 16; t < 64; ++t) {
    const uint32_t a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + w[t - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < 64; ++t) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += added[i];
}

#if defined(__x86_64__)
/// The instructions hold the state as (A, B, E, F) and (C, D, G, H), highest lane first, and do two
/// rounds each.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_by_instructions(
    std::array<uint32_t, 8>& state, const uint8_t* blocks, size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto lanes = [](uint32_t high, uint32_t b, uint32_t c, uint32_t low) {
    return _mm_set_epi32(static_cast<int>(high), static_cast<int>(b), static_cast<int>(c),
                         static_cast<int>(low));
  };
  __m128i abef = lanes(state[0], state[1], state[4], state[5]);
  __m128i cdgh = lanes(state[2], state[3], state[6], state[7]);
  for (size_t n = 0; n < count; ++n, blocks += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 16; ++i) {
      __m128i& words = w[i % 4];
      if (i < 4) {
        words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks) + i);
        words = _mm_shuffle_epi8(words, big_endian);
      } else {
        const __m128i last = w[(i + 3) % 4], seven_back = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
        words = _mm_add_epi32(_mm_sha256msg1_epu32(words, w[(i + 1) % 4]), seven_back);
        words = _mm_sha256msg2_epu32(words, last);
      }
      const auto* constants = reinterpret_cast<const __m128i*>(kRound) + i;
      const __m128i added = _mm_add_epi32(words, _mm_load_si128(constants));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) uint32_t feba[4], hgdc[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(feba), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(hgdc), cdgh);
  state = {feba[3], feba[2], hgdc[3], hgdc[2], feba[1], feba[0], hgdc[1], hgdc[0]};
}

bool has_sha_instructions() {
  // __builtin_cpu_supports of GCC 12 does not know them.
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0 &&
         __builtin_cpu_supports("sse4.1");
}
#endif

}  // namespace

void sha256_blocks(std::array<uint32_t, 8>& state, const uint8_t* blocks, size_t count,
                   bool allow_instructions) {
#if defined(__x86_64__)
  static const bool there = has_sha_instructions();
  if (allow_instructions && there) return compress_by_instructions(state, blocks, count);
#endif
  (void)allow_instructions;
  for (size_t i = 0; i < count; ++i) compress(state, blocks + 64 * i);
}

void Sha256::update(std::span<const uint8_t> bytes) {
  const size_t filled = length_ % 64;
  length_ += bytes.size();
  if (filled > 0) {
    const size_t taken = std::min(bytes.size(), 64 - filled);
    std::copy_n(bytes.data(), taken, block_.data() + filled);
    bytes = bytes.subspan(taken);
    if (filled + taken < 64) return;
    sha256_blocks(state_, block_.data(), 1);
  }
  sha256_blocks(state_, bytes.data(), bytes.size() / 64);
  const auto rest = bytes.last(bytes.size() % 64);
  std::copy(rest.begin(), rest.end(), block_.begin());
}

std::array<uint8_t, 32> Sha256::digest() {
  const uint64_t bits = length_ * 8;
  std::array<uint8_t, 72> end{0x80};
  const size_t zeros = (119 - length_ % 64) % 64;
  for (size_t i = 0; i < 8; ++i) end[1 + zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(std::span(end).first(1 + zeros + 8));
  std::array<uint8_t, 32> result;
  for (size_t i = 0; i < 32; ++i)
    result[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - i % 4 * 8));
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
