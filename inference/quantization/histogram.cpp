#include "inference/quantization/histogram.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "inference/quantization/codes.h"

namespace composer {
namespace {

constexpr int64_t kParts = 16;     // parts of a bin that are distributed to new bins
constexpr int64_t kCentres = 256;  // codes of the search, whatever the number of bits
constexpr double kStep = 1e-5;     // share of the numbers that each step of the search leaves out

/// Integral of density * x^2.
at::Tensor integral_of_squares(const at::Tensor& begin, const at::Tensor& end,
                               const at::Tensor& density) {
  return density * ((end * end * end - begin * begin * begin) / 3);
}

at::Tensor float_scalar(double value) { return at::scalar_tensor(value, at::kFloat); }

}  // namespace

void Histogram::add(const at::Tensor& given) {
  if (given.numel() == 0) return;
  auto values = given;
  const auto extremes = [&] {
    const auto [low, high] = at::aminmax(values);
    return std::pair(low.item<float>(), high.item<float>());
  };
  auto [low, high] = extremes();
  if (std::isnan(low) || std::isnan(high)) throw RunError("has values that are not a number");
  if (std::isinf(low) || std::isinf(high)) {
    values = values.masked_select(values.isfinite());
    if (values.numel() == 0) return;
    std::tie(low, high) = extremes();
  }
  if (!empty()) low = std::min(low, low_), high = std::max(high, high_);
  auto counts = at::histc(values, kBins, low, high);
  if (!empty()) counts += low == low_ && high == high_ ? counts_ : stretched(low, high);
  counts_ = counts, low_ = low, high_ = high;
}

at::Tensor Histogram::stretched(float low, float high) const {
  if (low_ == high_) return at::histc(float_scalar(low_), kBins, low, high) * counts_.sum();
  const auto parts = counts_.repeat_interleave(kParts) / kParts;
  const float width = (high_ - low_) / static_cast<float>(kBins * kParts);
  const auto middles =
      at::linspace(low_, high_, kBins * kParts + 1, at::kFloat).narrow(0, 0, kBins * kParts) +
      float_scalar(0.5F * width);
  const auto borders = at::linspace(low, high, kBins + 1, at::kFloat);
  const auto bins = (at::bucketize(middles, borders, /*out_int32=*/false, /*right=*/true) - 1)
                        .clamp(0, kBins - 1);
  return at::bincount(bins, parts, kBins);
}

double Histogram::error(int64_t first, int64_t last) const {
  const double width = (static_cast<double>(high_) - static_cast<double>(low_)) / kBins;
  const double share = width * static_cast<double>(last - first + 1) / kCentres;
  if (share == 0) return 0;
  const auto centre_below = [&](const at::Tensor& position) {
    return at::div(position, share, "floor").clamp(0, kCentres - 1);
  };
  const auto begin = (at::arange(kBins) - first) * width;
  const auto end = begin + width;
  const auto begin_code = centre_below(begin), end_code = centre_below(end);
  const auto density = counts_ / width;
  auto sum = integral_of_squares(begin - (begin_code + 0.5) * share, at::full({kBins}, share / 2),
                                 density);
  sum += (end_code - begin_code - 1) *
         integral_of_squares(float_scalar(-share / 2), float_scalar(share / 2), density);
  sum +=
      integral_of_squares(float_scalar(-share / 2), end - (end_code * share + share / 2), density);
  return sum.sum().item<float>();
}

Affine Histogram::codes(int64_t bits) const {
  const double total = counts_.sum().item<float>();
  const auto sums = counts_.cumsum(0);
  const float* const below = sums.const_data_ptr<float>();
  double left_out = 0, kept = 1, least = std::numeric_limits<double>::infinity();
  int64_t first = 0, last = kBins - 1;
  while (low_ < high_ && left_out < kept) {
    const double more = left_out + kStep, less = kept - kStep;
    int64_t next_first = first, next_last = last;
    while (next_first < last && below[next_first] < static_cast<float>(more * total)) ++next_first;
    while (next_last > first && below[next_last] > static_cast<float>(less * total)) --next_last;
    if (next_first - first > last - next_last)
      next_last = last, left_out = more;
    else
      next_first = first, kept = less;
    if (next_first == first && next_last == last) continue;
    const double sum = error(next_first, next_last);
    if (sum > least) break;
    least = sum, first = next_first, last = next_last;
  }
  const float width = (high_ - low_) / kBins;
  return codes_over(low_ + width * static_cast<float>(first),
                    low_ + width * static_cast<float>(last + 1), bits);
}

}  // namespace composer
