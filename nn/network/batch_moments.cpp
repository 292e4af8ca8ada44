#include "nn/network/batch_moments.h"

#include <algorithm>

namespace composer {
namespace {

enum Kind : int64_t { centre, sum, squares, kinds };

/// One thread's. Values are summed up by their distance from the mean of the run's first rows, a
/// sixteenth of them. The square of the distance between a run's mean and that of its sixteenth is
/// no more than 16 variances, so their difference loses no more than a digit.
class MomentsOfRuns {
 public:
  MomentsOfRuns(const NormRuns& runs, const at::Tensor& images, NormSums& sums)
      : runs_(runs),
        images_(static_cast<const std::byte*>(images.const_data_ptr())),
        sums_(sums),
        zeros_(static_cast<size_t>(runs.width())),
        sum_(zeros_.size()),
        squares_(zeros_.size()) {}

  void operator()(const NormRun& run) {
    const auto centres = sums_.of(run, centre);
    find_centres(run, centres);
    const float* const around = columns_.of(centres.data(), run);
    for_rows(run, [&](const NormRows& rows, int64_t begin) {
      norm_moments(rows, {runs_.at(images_, begin), around, sum_.data(), squares_.data()});
      const auto width = static_cast<size_t>(rows.width);
      add_columns({sum_.data(), width}, run.repeated, sums_.of(run, sum));
      add_columns({squares_.data(), width}, run.repeated, sums_.of(run, squares));
    });
  }

 private:
  void find_centres(const NormRun& run, std::span<float> centres) {
    auto first = run.rows;
    if (first.rows == 0) first.width = run.rest;
    first.rows = std::max<int64_t>(first.rows / 16, 1);
    norm_moments(first,
                 {runs_.at(images_, run.begin), zeros_.data(), sum_.data(), squares_.data()});
    add_columns({sum_.data(), static_cast<size_t>(first.width)}, run.repeated, centres);
    const auto values = static_cast<float>(first.rows * first.width / run.channels);
    for (auto& mean : centres) mean /= values;
  }

  const NormRuns& runs_;
  const std::byte* images_;
  NormSums& sums_;
  std::vector<float> zeros_, sum_, squares_;
  NormColumns columns_;
};

}  // namespace

// Parts are joined as Chan, Golub and LeVeque 1979 do.
Moments batch_moments(const NormRuns& runs, const at::Tensor& images) {
  NormSums sums(runs, kinds);
  runs.for_each(/*last_first=*/false, [&] { return MomentsOfRuns(runs, images, sums); });
  const auto channels = static_cast<size_t>(runs.channels());
  Moments all{std::vector<double>(channels), std::vector<double>(channels)};
  at::parallel_for(0, runs.channels(), norm_channels_a_thread, [&](int64_t begin, int64_t end) {
    double* const mean = all.mean.data();
    double* const summed = all.squares.data();
    double before = 0;
    for (int64_t part = 0; part < runs.parts(); ++part) {
      const auto values = static_cast<double>(runs.values(part));
      const double one = 1 / values, share = values / (before + values);
      const float *const centres = sums.of(part, centre), *const distances = sums.of(part, sum),
                         *const of_part = sums.of(part, squares);
      for (int64_t c = begin; c < end; ++c) {
        const double from_centre = distances[c] * one;
        const double apart = centres[c] + from_centre - mean[c];
        summed[c] += of_part[c] - distances[c] * from_centre + apart * apart * (before * share);
        mean[c] += apart * share;
      }
      before += values;
    }
    for (int64_t c = begin; c < end; ++c) summed[c] = summed[c] < 0 ? 0 : summed[c];
  });
  return all;
}

}  // namespace composer
