// The most arithmetic that a device does, to measure a run against.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <string_view>

#include "nn/network/precision.h"

namespace composer {

struct PeakFlops {
  double per_second = 0;  ///< a multiply-add is two
  std::string source;     ///< for people: "published for NVIDIA H200"
};

/// Of dense products in the arithmetic of `precision`: what its maker publishes for a known GPU,
/// else what is measured, which takes a fraction of a second.
PeakFlops peak_flops(Precision precision, at::Device device);

/// gpu: as its driver names it. Nothing for one that is not known, and for arithmetic that it
/// lacks.
std::optional<double> published_peak(std::string_view gpu, Precision precision);

/// The best of a few products of large square matrices.
double measured_peak(Precision precision, at::Device device);

}  // namespace composer
