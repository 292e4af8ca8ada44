#include "data/jpeg/reconstruct.h"

#include <algorithm>

namespace composer {
namespace {

constexpr int64_t kBlock = 8, kReadBeyond = 64;

}  // namespace

bool JpegReconstruction::takes(const JpegScan& scan, ImageSize part) {
  // libjpeg has other rules for halved chroma of one or two samples.
  const bool wide_enough = scan.chroma_step == 1 || part.width >= 5;
  return scan.chroma_step != 0 && wide_enough && jpeg_kernels().transform != nullptr;
}

/// Makes room for the samples, and targets of the first row of MCUs.
void JpegReconstruction::aim(const JpegScan& scan, int64_t mcus_across, int64_t mcu_rows) {
  const int64_t step = scan.chroma_step;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t side = i == 0 ? step * kBlock : kBlock;
    stride_[i] = mcus_across * side;
    const auto bytes = static_cast<size_t>(mcu_rows * side * stride_[i] + kReadBeyond);
    fit(samples_[i], bytes);
  }
  targets_.clear();
  for (int64_t mcu = 0; mcu < mcus_across; ++mcu) {
    for (int64_t block = 0; block < step * step; ++block) {
      const int64_t y = block / step * kBlock, x = (mcu * step + block % step) * kBlock;
      targets_.push_back(
          {samples_[0].data() + y * stride_[0] + x, stride_[0], scan.quantization[0].data()});
    }
    for (const size_t i : {1, 2}) {
      targets_.push_back(
          {samples_[i].data() + mcu * kBlock, stride_[i], scan.quantization[i].data()});
    }
  }
}

bool JpegReconstruction::run(const JpegScan& scan, ImageSize part, int64_t mcus_across,
                             const Box& wanted, JpegCoefficients& rows, Image& pixels) {
  const JpegKernels& kernels = jpeg_kernels();
  const int64_t step = scan.chroma_step, mcu_height = step * kBlock;
  const int64_t chroma_height = (part.height + step - 1) / step;
  const int64_t chroma_width = (part.width + step - 1) / step;
  const int64_t end = wanted.top + wanted.height;
  const int64_t last_chroma = std::min((end - 1) / step + step - 1, chroma_height - 1);
  const int64_t mcu_rows = last_chroma / kBlock + 1;
  aim(scan, mcus_across, mcu_rows);
  const auto sums = static_cast<size_t>(2 * (chroma_width + 128));
  if (sums_.size() < sums) sums_.resize(sums);
  pixels.resize(wanted.height, wanted.width, 3);
  int64_t y = wanted.top;
  for (int64_t mcu = 0; mcu < mcu_rows; ++mcu) {
    int16_t* const blocks = rows.next_row();
    if (blocks == nullptr) return false;
    kernels.transform(blocks, static_cast<int64_t>(targets_.size()), targets_.data());
    for (JpegTarget& target : targets_) {
      target.samples += target.stride * (target.stride / mcus_across);  // an MCU is a square
    }
    // With halved chroma the last row waits for the next MCUs'.
    const int64_t known = mcu + 1 == mcu_rows ? end : (mcu + 1) * mcu_height - (step - 1);
    for (; y < std::min(known, end); ++y) {
      const int64_t near = y / step;
      const int64_t far = std::clamp<int64_t>(near + (y % 2 == 0 ? -1 : 1), 0, chroma_height - 1);
      const uint8_t *const blue = samples_[1].data(), *const red = samples_[2].data();
      const JpegColorRow row{.luma = samples_[0].data() + y * stride_[0],
                             .blue = {blue + near * stride_[1], blue + far * stride_[1]},
                             .red = {red + near * stride_[2], red + far * stride_[2]},
                             .chroma_width = chroma_width,
                             .first = wanted.left,
                             .count = wanted.width};
      uint8_t* const rgb = pixels.row(y - wanted.top);
      step == 1 ? kernels.color_full(row, rgb) : kernels.color_halved(row, sums_.data(), rgb);
    }
  }
  return true;
}

}  // namespace composer
