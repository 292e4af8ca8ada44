#include "inference/preprocessing.h"

#include <algorithm>

#include "base/error.h"

namespace composer {
namespace {

/// Why no file can; empty if one can.
std::string refusal_of(const TrainedNetwork& network) {
  const auto& [channels, resize_size, size, normalization] = network.preparation;
  const auto& filter = network.resize_filter;
  if (resize_size <= 0) return "its evaluation does not resize images";
  if (filter != "triangle" && filter != "bicubic") return "it resizes by " + filter;
  if (resize_size < std::max(size.height, size.width))
    return "its evaluation pads images of " + std::to_string(resize_size) +
           " pixels to a larger crop";
  return "";
}

}  // namespace

void check_resizes(const TrainedNetwork& network) {
  if (const auto refusal = refusal_of(network); !refusal.empty())
    throw UserError("--preprocessing: no file can resize images for this network: " + refusal +
                    "; take --preprocessing normalize");
}

}  // namespace composer
