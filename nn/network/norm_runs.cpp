#include "nn/network/norm_runs.h"

#include <algorithm>
#include <numeric>

namespace composer {
namespace {

/// About as many values as a run has: the memory of its sums is small beside them, and they fit a
/// second-level cache.
constexpr int64_t run_values = 1 << 16;
/// Fewest pixels of a run of NHWC, whatever the number of channels, for the same reason.
constexpr int64_t least_pixels = 64;

/// Columns of a row of NHWC: enough for the loop over columns, and few enough for their sums to
/// stay in a first-level cache.
constexpr int64_t least_width = 256;
constexpr int64_t most_width = 4096;
/// The widest vector; a row that is no multiple of it ends in a partial block.
constexpr int64_t block = 32;
/// Most columns of a row of NCHW.
constexpr int64_t plane_width = 1024;

/// A multiple of the channels, and of a block where that is at most most_width.
int64_t width_of(int64_t channels) {
  const int64_t least = std::lcm(channels, block);
  return least > most_width ? channels : least * at::divup(least_width, least);
}

/// Adds up in eight sums, which fit vectors.
float sum_of(std::span<const float> values) {
  std::array<float, 8> sums{};
  size_t i = 0;
  for (; i + sums.size() <= values.size(); i += sums.size())
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += values[i + k];
  for (size_t k = 0; i < values.size(); ++i, ++k) sums[k] += values[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

NormRuns::NormRuns(const at::Tensor& images)
    : images_(images.size(0)),
      channels_(images.size(1)),
      pixels_(images.size(2) * images.size(3)),
      channels_last_(images.is_contiguous(at::MemoryFormat::ChannelsLast)),
      bf16_(images.scalar_type() == at::kBFloat16) {
  if (channels_last_)
    cut_channels_last();
  else
    cut_planes();
}

void NormRuns::cut_channels_last() {
  width_ = width_of(channels_);
  of_group_ = channels_;
  const int64_t in_row = width_ / channels_;
  together_ = at::divup(std::max(least_pixels, run_values / channels_), in_row) * in_row;
  parts_ = at::divup(values_a_channel(), together_);
}

void NormRuns::cut_planes() {
  of_piece_ = std::min(pixels_, plane_width);
  pieces_ = at::divup(pixels_, of_piece_);
  of_group_ = std::min(channels_, plane_width / of_piece_);
  groups_ = at::divup(channels_, of_group_);
  width_ = of_group_ * of_piece_;
  together_ = std::min(images_, run_values / width_);
  parts_ = at::divup(images_, together_) * pieces_;
  grain_ = at::divup(run_values, together_ * width_);
}

int64_t NormRuns::values(int64_t part) const {
  if (channels_last_) return std::min(together_, values_a_channel() - part * together_);
  const int64_t image = part / pieces_ * together_, pixel = part % pieces_ * of_piece_;
  return std::min(together_, images_ - image) * std::min(of_piece_, pixels_ - pixel);
}

NormRun NormRuns::operator[](int64_t i) const {
  NormRun run{};
  run.rows.bf16 = bf16_;
  if (channels_last_) {
    const int64_t size = values(i) * channels_;
    run.begin = i * together_ * channels_;
    run.rows.rows = size / width_, run.rows.width = run.rows.stride = width_;
    run.rest = size % width_;
    run.channels = channels_, run.repeated = 1, run.part = i;
    return run;
  }
  const int64_t piece = i % pieces_, group = i / pieces_ % groups_, chunk = i / pieces_ / groups_;
  const int64_t image = chunk * together_, pixel = piece * of_piece_;
  run.channel = group * of_group_;
  run.channels = std::min(of_group_, channels_ - run.channel);
  run.repeated = std::min(of_piece_, pixels_ - pixel);
  run.rows.rows = std::min(together_, images_ - image);
  run.rows.width = run.channels * run.repeated;
  run.rows.stride = channels_ * pixels_;
  run.begin = (image * channels_ + run.channel) * pixels_ + pixel;
  run.part = chunk * pieces_ + piece;
  return run;
}

NormSums::NormSums(const NormRuns& runs, int64_t kinds)
    : kinds_(kinds),
      channels_(runs.channels()),
      parts_(runs.parts()),
      values_(static_cast<size_t>(parts_ * kinds_ * channels_)) {}

std::span<float> NormSums::of(const NormRun& run, int64_t kind) {
  return std::span(values_).subspan(
      static_cast<size_t>((run.part * kinds_ + kind) * channels_ + run.channel),
      static_cast<size_t>(run.channels));
}

const float* NormSums::of(int64_t part, int64_t kind) const {
  return values_.data() + (part * kinds_ + kind) * channels_;
}

std::vector<double> NormSums::total(int64_t kind) const {
  std::vector<double> sums(static_cast<size_t>(channels_));
  at::parallel_for(0, channels_, norm_channels_a_thread, [&](int64_t begin, int64_t end) {
    for (int64_t part = 0; part < parts_; ++part) {
      const float* const one = of(part, kind);
      for (int64_t c = begin; c < end; ++c) sums[static_cast<size_t>(c)] += double{one[c]};
    }
  });
  return sums;
}

const float* NormColumns::of(const float* channels, const NormRun& run) {
  const int64_t width = run.rows.width;
  if (width == run.channels) return channels;
  row_.resize(static_cast<size_t>(width));
  auto at = row_.begin();
  if (run.repeated == 1)
    for (; at != row_.end(); at += run.channels) std::copy_n(channels, run.channels, at);
  else
    for (int64_t c = 0; c < run.channels; ++c) at = std::fill_n(at, run.repeated, channels[c]);
  return row_.data();
}

void add_columns(std::span<const float> columns, int64_t repeated, std::span<float> channels) {
  const auto side_by_side = static_cast<size_t>(repeated);
  if (repeated > 1) {
    for (size_t c = 0; c < channels.size(); ++c)
      channels[c] += sum_of(columns.subspan(c * side_by_side, side_by_side));
  } else {
    for (size_t j = 0; j < columns.size(); j += channels.size())
      for (size_t c = 0; c < channels.size(); ++c) channels[c] += columns[j + c];
  }
}

}  // namespace composer
