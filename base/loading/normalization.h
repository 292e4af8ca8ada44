// How bytes of pixels become the numbers that networks take.
#pragma once

#include <vector>

namespace composer {

/// x -> (x - mean) / std for each channel, in units of the bytes 0..255. The vectors have one entry
/// a channel.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> std;
};

}  // namespace composer
