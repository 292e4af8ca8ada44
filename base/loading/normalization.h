// The normalization of pixels.
#pragma once

#include <vector>

namespace composer {

/// x -> (x - mean) / std for each channel, in units of the bytes 0..255. Each vector has one entry
/// per channel.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> std;
};

}  // namespace composer
