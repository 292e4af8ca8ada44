// How images are cut into runs for the passes of norm_simd.h. Nothing here depends on the number of
// threads, so sums do not either.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/network/norm_simd.h"

namespace composer {

/// Rows of values, and of NHWC images a shorter row behind them. The column j of a row is of
/// channel channel + j / repeated % channels.
struct NormRun {
  int64_t begin;  ///< the first value's place among the images' values
  NormRows rows;
  int64_t rest;               ///< values of the shorter row
  int64_t channel, channels;  ///< the first one, and how many
  int64_t repeated;           ///< columns that a channel has side by side
  int64_t part;               ///< which of the sums over a channel it adds to
};

/// Of NHWC a run has all channels of some pixels; of NCHW it has some pixels of some channels of
/// some images, a row each. Each channel's values lie in the same number of parts, one run each.
class NormRuns {
 public:
  /// images [N, C, H, W], NHWC or NCHW without gaps, float32 or bfloat16, not empty.
  explicit NormRuns(const at::Tensor& images);

  int64_t channels() const { return channels_; }
  int64_t values_a_channel() const { return images_ * pixels_; }
  int64_t parts() const { return parts_; }
  /// Of a channel in a part.
  int64_t values(int64_t part) const;

  int64_t size() const { return parts_ * groups_; }
  NormRun operator[](int64_t i) const;
  /// Of the longest row.
  int64_t width() const { return width_; }

  /// Where the i-th value lies in the images' memory, or in that of something like them; null for
  /// null.
  template <class Byte>
  Byte* at(Byte* memory, int64_t i) const {
    return memory == nullptr ? nullptr : memory + i * (bf16_ ? 2 : 4);
  }

  /// Calls make_body()(run) for each run, several runs by what one call of make_body gave, in
  /// parallel. last_first: for a second pass over the same memory, whose end the caches still hold.
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
  int64_t together_ = 0;  ///< of a run, at most: pixels (NHWC), images (NCHW)
  int64_t of_group_ = 0;  ///< channels of a run, at most
  int64_t of_piece_ = 0;  ///< pixels of a channel in a row of NCHW, at most
  int64_t pieces_ = 1, parts_ = 0, groups_ = 1, grain_ = 1;
};

/// Calls body(rows, first value) for the rows of a run, then for the shorter one.
template <class Body>
void for_rows(const NormRun& run, const Body& body) {
  if (run.rows.rows > 0) body(run.rows, run.begin);
  if (run.rest > 0)
    body(NormRows{1, run.rest, run.rest, run.rows.bf16},
         run.begin + run.rows.rows * run.rows.width);
}

/// Numbers for each channel in each part.
class NormSums {
 public:
  NormSums(const NormRuns& runs, int64_t kinds);

  /// Those of a run's channels.
  std::span<float> of(const NormRun& run, int64_t kind);
  /// Of all channels.
  const float* of(int64_t part, int64_t kind) const;

  /// Of each channel, over all parts in their order.
  std::vector<double> total(int64_t kind) const;

 private:
  int64_t kinds_, channels_, parts_;
  std::vector<float> values_;
};

/// Channels' parameters, by the columns of a run.
class NormColumns {
 public:
  /// channels: those of the run. Valid until the next call, or as long as `channels`.
  const float* of(const float* channels, const NormRun& run);

 private:
  std::vector<float> row_;
};

/// The same of several parameters of all channels, for one run after another.
template <size_t count>
class NormParameters {
 public:
  /// channels: each [C] in memory, or null, which stays null.
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

/// channels[c] += the columns of channel c.
void add_columns(std::span<const float> columns, int64_t repeated, std::span<float> channels);

/// Channels of which a thread of its own may add up the parts.
inline constexpr int64_t norm_channels_a_thread = 256;

}  // namespace composer
