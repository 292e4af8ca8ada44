// Splits images into runs for the passes of norm_simd.h. The runs, and so the sums, do not depend
// on the number of threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/network/norm_simd.h"

namespace composer {

/// Rows of values, and for NHWC images one shorter row after them. Column j of a row belongs to
/// channel `channel` + j / repeated % channels.
struct NormRun {
  int64_t begin;  ///< index of the first value among the images' values
  NormRows rows;
  int64_t rest;               ///< values of the shorter row
  int64_t channel, channels;  ///< the first channel, and their number
  int64_t repeated;           ///< neighbouring columns of one channel
  int64_t part;               ///< index of the sums over a channel that the run adds to
};

/// A run of NHWC has all channels of some pixels; a run of NCHW has some pixels of some channels of
/// some images, one row per image. The values of each channel are in the same number of parts, with
/// one run each.
class NormRuns {
 public:
  /// images: dense NHWC or NCHW [N, C, H, W], float32 or bfloat16, not empty.
  explicit NormRuns(const at::Tensor& images);

  int64_t channels() const { return channels_; }
  int64_t values_a_channel() const { return images_ * pixels_; }
  int64_t parts() const { return parts_; }
  /// The number of values of one channel in a part.
  int64_t values(int64_t part) const;

  int64_t size() const { return parts_ * groups_; }
  NormRun operator[](int64_t i) const;
  /// The width of the longest row.
  int64_t width() const { return width_; }

  /// The address of the i-th value in memory laid out like the images'; null for null.
  template <class Byte>
  Byte* at(Byte* memory, int64_t i) const {
    return memory == nullptr ? nullptr : memory + i * (bf16_ ? 2 : 4);
  }

  /// Calls body(run) for each run, in parallel; each thread makes its bodies by make_body().
  /// last_first: for a second pass over the same memory, whose end is still in the caches.
  template <class MakeBody>
  void for_each(bool last_first, const MakeBody& make_body) const {
    at::parallel_for(0, size(), grain_, [&](int64_t begin, int64_t end) {
      auto body = make_body();
      for (int64_t i = begin; i < end; ++i) body((*this)[last_first ? begin + end - 1 - i : i]);
    });
  }

 private:
  void cut_channels_last();
  void cut_planes();

  int64_t images_, channels_, pixels_;
  bool channels_last_, bf16_;
  int64_t width_ = 0;
  int64_t together_ = 0;  ///< the most pixels (NHWC) or images (NCHW) of a run
  int64_t of_group_ = 0;  ///< channels of a run, at most
  int64_t of_piece_ = 0;  ///< pixels of a channel in a row of NCHW, at most
  int64_t pieces_ = 1, parts_ = 0, groups_ = 1, grain_ = 1;
};

/// Calls body(rows, index of the first value) for the rows of a run, then for the shorter row.
template <class Body>
void for_rows(const NormRun& run, const Body& body) {
  if (run.rows.rows > 0) body(run.rows, run.begin);
  if (run.rest > 0)
    body(NormRows{1, run.rest, run.rest, run.rows.bf16},
         run.begin + run.rows.rows * run.rows.width);
}

/// Sums of several kinds for each channel in each part.
class NormSums {
 public:
  NormSums(const NormRuns& runs, int64_t kinds);

  /// The sums of a run's channels.
  std::span<float> of(const NormRun& run, int64_t kind);
  /// The sums of all channels.
  const float* of(int64_t part, int64_t kind) const;

  /// Each channel's sum over all parts, in their order.
  std::vector<double> total(int64_t kind) const;

 private:
  int64_t kinds_, channels_, parts_;
  std::vector<float> values_;
};

/// Spreads parameters of channels over the columns of a run.
class NormColumns {
 public:
  /// channels: of the run's channels. The result is valid until the next call, and no longer than
  /// `channels`.
  const float* of(const float* channels, const NormRun& run);

 private:
  std::vector<float> row_;
};

/// NormColumns of several parameters, for one run after another.
template <size_t count>
class NormParameters {
 public:
  /// channels: each [C], or null, which stays null.
  explicit NormParameters(const std::array<const float*, count>& channels) : channels_(channels) {}

  const std::array<const float*, count>& of(const NormRun& run) {
    if (run.channel == channel_ && run.rows.width == width_) return rows_;
    for (size_t i = 0; i < count; ++i)
      if (channels_[i] != nullptr) rows_[i] = columns_[i].of(channels_[i] + run.channel, run);
    channel_ = run.channel, width_ = run.rows.width;
    return rows_;
  }

 private:
  std::array<const float*, count> channels_;
  int64_t channel_ = -1, width_ = -1;
  std::array<NormColumns, count> columns_;
  std::array<const float*, count> rows_{};
};

/// channels[c] += the sum of the columns of channel c.
void add_columns(std::span<const float> columns, int64_t repeated, std::span<float> channels);

/// Fewest channels whose parts one thread adds up.
inline constexpr int64_t norm_channels_a_thread = 256;

}  // namespace composer
