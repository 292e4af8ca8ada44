// Counter-based random numbers: every draw is a pure function of (seed, purpose, epoch, index), so
// that it depends neither on resumption nor on the number of threads. Nobody keeps a generator that
// advances.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace composer {

/// A stream of draws for one purpose at one position in training. Construct it where it is needed
/// and discard it after the draws. Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
/// easy as 1, 2, 3").
class Random {
 public:
  /// purpose: names the use, for instance "data.shuffle"; two purposes never share draws.
  /// index: the sample or batch the draw is for, below 2^32.
  Random(uint64_t seed, std::string_view purpose, uint64_t epoch, uint64_t index)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, hash(purpose), static_cast<uint32_t>(epoch), static_cast<uint32_t>(index)} {}

  uint32_t bits() {
    if (used_ == 4) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Uniform in [0, 1), with 53 bits.
  double uniform() {
    const uint64_t high = bits() >> 5, low = bits() >> 6;
    return static_cast<double>(high * 67108864 + low) / 9007199254740992.0;
  }

  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Uniform integer in [0, n), 0 < n <= 2^32; unbiased (Lemire 2019).
  int64_t below(int64_t n) {
    const auto range = static_cast<uint64_t>(n);
    uint64_t product = bits() * range;
    if (static_cast<uint32_t>(product) < range) {
      const auto threshold = static_cast<uint32_t>((0x100000000ULL - range) % range);
      while (static_cast<uint32_t>(product) < threshold) product = bits() * range;
    }
    return static_cast<int64_t>(product >> 32);
  }

  /// Standard normal (Marsaglia's polar method).
  double normal() {
    for (;;) {
      const double x = uniform(-1, 1), y = uniform(-1, 1), square = x * x + y * y;
      if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
    }
  }

  /// A draw from the Beta distribution of a, b > 0; in [0, 1], however small or large these are.
  double beta(double a, double b) {
    const double x = log_gamma_draw(a), y = log_gamma_draw(b);
    return 1 / (1 + std::exp(y - x));
  }

  static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = 0xD2511F53ULL * c[0], b = 0xCD9E8D57ULL * c[2];
      c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
           static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
      k[0] += 0x9E3779B9;
      k[1] += 0xBB67AE85;
    }
    return c;
  }

 private:
  /// Logarithm of a draw from the Gamma distribution (Marsaglia and Tsang 2000), which for a small
  /// shape does not underflow as the draw would.
  double log_gamma_draw(double shape) {
    shape = std::max(shape, 1e-300);  // the logarithm of a draw stays finite
    const double boost = shape < 1 ? std::log(1 - uniform()) / shape : 0;
    const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal(), root = 1 + c * x, v = root * root * root;
      if (v > 0 && std::log(1 - uniform()) < x * x / 2 + d * (1 - v + std::log(v)))
        return std::log(d * v) + boost;
    }
  }

  static constexpr uint32_t hash(std::string_view text) {  // FNV-1a
    uint32_t value = 2166136261u;
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
    return value;
  }

  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace composer
