// XXH64 (Collet, XXH64 of xxHash's specification) with the seed 0: a fast hash that tells damage,
// not forgery. MosaicML's shards may have it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace composer {

class Xxh64 {
 public:
  void update(std::span<const uint8_t> bytes);
  /// Of all bytes so far: 16 lower-case hexadecimal digits, the most significant first.
  std::string hex() const;

 private:
  static constexpr uint64_t kFirst = 0x9E3779B185EBCA87u, kSecond = 0xC2B2AE3D27D4EB4Fu;

  std::array<uint64_t, 4> lanes_{kFirst + kSecond, kSecond, 0, 0 - kFirst};
  std::array<uint8_t, 32> rest_{};  ///< that is no whole stripe yet
  uint64_t bytes_ = 0;
};

}  // namespace composer
