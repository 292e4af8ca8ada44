// A number that tells a block's bytes from those that a disk has left of it after a loss of power.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace composer {

/// 16 bytes a step in two chains; not for data that somebody means to forge.
inline uint32_t block_hash(std::span<const uint8_t> bytes) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
  uint64_t a = bytes.size(), b = ~a;
  const auto mixed = [](uint64_t sum, uint64_t word) {
    return std::rotl((sum ^ word) * kOdd, 29) + word;
  };
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  for (uint64_t words[2]; left >= sizeof words; left -= sizeof words, at += sizeof words) {
    std::memcpy(words, at, sizeof words);
    a = mixed(a, words[0]), b = mixed(b, words[1]);
  }
  uint64_t rest[2] = {};
  if (left > 0) std::memcpy(rest, at, left);
  a = mixed(mixed(a, rest[0]), b), a = mixed(a, rest[1]);
  return static_cast<uint32_t>((a ^ a >> 32) * kOdd >> 32);
}

}  // namespace composer
