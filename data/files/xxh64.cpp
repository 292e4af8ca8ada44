#include "data/files/xxh64.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace composer {
namespace {

constexpr uint64_t kPrimes[] = {0x9E3779B185EBCA87u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u,
                                0x85EBCA77C2B2AE63u, 0x27D4EB2F165667C5u};

template <class T>
uint64_t word_at(const uint8_t* at) {
  T word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint64_t lane_after(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrimes[1], 31) * kPrimes[0];
}

void take_stripe(std::array<uint64_t, 4>& lanes, const uint8_t* at) {
  for (size_t i = 0; i < lanes.size(); ++i)
    lanes[i] = lane_after(lanes[i], word_at<uint64_t>(at + 8 * i));
}

uint64_t joined_lanes(const std::array<uint64_t, 4>& lanes) {
  uint64_t sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                 std::rotl(lanes[3], 18);
  for (const uint64_t lane : lanes) sum = (sum ^ lane_after(0, lane)) * kPrimes[0] + kPrimes[3];
  return sum;
}

/// With what is no whole stripe.
uint64_t with_rest(uint64_t sum, std::span<const uint8_t> rest) {
  for (; rest.size() >= 8; rest = rest.subspan(8))
    sum = std::rotl(sum ^ lane_after(0, word_at<uint64_t>(rest.data())), 27) * kPrimes[0] +
          kPrimes[3];
  for (; rest.size() >= 4; rest = rest.subspan(4))
    sum =
        std::rotl(sum ^ word_at<uint32_t>(rest.data()) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
  for (const uint8_t byte : rest) sum = std::rotl(sum ^ byte * kPrimes[4], 11) * kPrimes[0];
  return sum;
}

}  // namespace

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
  uint64_t sum = (bytes_ < rest_.size() ? kPrimes[4] : joined_lanes(lanes_)) + bytes_;
  sum = with_rest(sum, std::span(rest_).first(bytes_ % rest_.size()));
  sum = (sum ^ sum >> 33) * kPrimes[1];
  sum = (sum ^ sum >> 29) * kPrimes[2];
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum ^ sum >> 32));
  return text;
}

}  // namespace composer
