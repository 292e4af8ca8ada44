#include "base/remote/read_times.h"

#include <algorithm>

namespace composer {
namespace {

constexpr size_t kKept = 100, kEnough = 20;
constexpr double kShare = 0.05, kMostAllowance = 8;
constexpr double kFactor = 2, kAtLeast = 0.05;
constexpr uint64_t kTiny = 64 << 10, kSmall = 1 << 20;

}  // namespace

ReadTimes::Recent& ReadTimes::like(uint64_t bytes) {
  return recent_[bytes <= kTiny ? 0 : bytes <= kSmall ? 1 : 2];
}

std::optional<double> ReadTimes::limit(uint64_t bytes) {
  if (bytes > kMostBytes) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto& seconds = like(bytes).seconds;
  if (seconds.size() < kEnough) return std::nullopt;
  auto sorted = seconds;
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 95 / 100);
  std::nth_element(sorted.begin(), at, sorted.end());
  return kFactor * *at + kAtLeast;
}

bool ReadTimes::take_allowance() {
  const std::lock_guard lock(mutex_);
  if (allowance_ < 1) return false;
  --allowance_;
  return true;
}

void ReadTimes::add(uint64_t bytes, double seconds) {
  if (bytes > kMostBytes) return;
  const std::lock_guard lock(mutex_);
  Recent& recent = like(bytes);
  if (recent.seconds.size() < kKept) {
    recent.seconds.push_back(seconds);
  } else {
    recent.seconds[recent.next] = seconds;
    recent.next = (recent.next + 1) % kKept;
  }
  allowance_ = std::min(allowance_ + kShare, kMostAllowance);
}

}  // namespace composer
