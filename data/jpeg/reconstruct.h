// Coefficients -> pixels without libjpeg, for the streams that nearly all photographs are: YCbCr of
// full or halved chroma, decoded at full size with the accurate DCT. The pixels are
// libjpeg-turbo's.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/jpeg/codec.h"
#include "data/jpeg/reconstruct_simd.h"
#include "data/jpeg/scan.h"
#include "data/pixels/image.h"

namespace composer {

/// Keeps its memory from image to image.
class JpegReconstruction {
 public:
  /// Whether run() can take a part of so many pixels of the scan's image.
  static bool takes(const JpegScan& scan, ImageSize part);

  /// part: the size of an image of its own that the rows are of, mcus_across MCUs wide. wanted: in
  /// its pixels. False when the coefficients fail.
  bool run(const JpegScan& scan, ImageSize part, int64_t mcus_across, const Box& wanted,
           JpegCoefficients& rows, Image& pixels);

 private:
  void aim(const JpegScan& scan, int64_t mcus_across, int64_t mcu_rows);

  std::array<std::vector<uint8_t>, 3> samples_;  ///< of each component
  std::array<int64_t, 3> stride_{};
  std::vector<JpegTarget> targets_;  ///< of a row of MCUs
  std::vector<int16_t> sums_;
};

}  // namespace composer
