// The kernels of a forward and a backward pass. `run` is called as run(grid, kernel), in order.
#pragma once

#include "cuda/norm_kernels.h"
#include "cuda/norm_launch.h"

namespace composer::cuda {

inline size_t partial_size(int64_t rows, int channels) {
  return 3 * static_cast<size_t>(channels) *
         static_cast<size_t>(norm_grid(rows, channels).shape.blocks);
}

/// Rows of the output of a pool.
inline int64_t pooled_rows(int64_t rows, const NormPool& pool) {
  return rows / (pool.input_size[0] * pool.input_size[1]) * pool.output_size[0] *
         pool.output_size[1];
}

/// Calls visit.operator()<follows>() for a `follows` that `with` allows.
template <NormWith with, class Visit>
void with_follows(NormFollows follows, const Visit& visit) {
  switch (follows) {
    case NormFollows::nothing:
      return visit.template operator()<NormFollows::nothing>();
    case NormFollows::relu:
      return visit.template operator()<NormFollows::relu>();
    case NormFollows::gelu:
      if constexpr (with != NormWith::residual_norm)
        return visit.template operator()<NormFollows::gelu>();
  }
}

/// Statistics of `images`, the input or the residual.
template <class T, class Run>
void statistics_passes(const NormForwardArguments& given, const void* images,
                       const NormParameters& norm, float* statistics, Run& run) {
  auto [shape, grid] = norm_grid(given.rows, given.channels);
  grid.shared = NormShared::bytes(grid, 2);
  if (given.training)
    run(grid, NormMomentsKernel<T>{shape, static_cast<const T*>(images), given.partial});
  run(norm_channel_grid(shape, 3),
      NormStatisticsKernel{shape, given.training ? given.partial : nullptr, norm, statistics});
}

template <class T, class Run>
void forward_passes(const NormForwardArguments& given, Run& run) {
  const auto [shape, grid] = norm_grid(given.rows, given.channels);
  const auto* const input = static_cast<const T*>(given.input);
  const auto* const residual = static_cast<const T*>(given.residual);
  auto* const output = static_cast<T*>(given.output);
  statistics_passes<T>(given, input, given.norm, given.statistics, run);
  if (given.with == NormWith::residual_norm)
    statistics_passes<T>(given, residual, given.residual_norm,
                         given.statistics + norm_statistics * given.channels, run);
  const auto apply = [&]<NormWith with>() {
    with_follows<with>(given.follows, [&]<NormFollows follows>() {
      run(grid, NormApplyKernel<T, follows, with>{shape, input, residual, given.statistics, output,
                                                  given.marks});
    });
  };
  switch (given.with) {
    case NormWith::nothing:
      return apply.template operator()<NormWith::nothing>();
    case NormWith::residual_norm:
      return apply.template operator()<NormWith::residual_norm>();
    case NormWith::pool:
      const auto pooled = norm_grid(pooled_rows(given.rows, given.pool), given.channels);
      return with_follows<NormWith::pool>(given.follows, [&]<NormFollows follows>() {
        run(pooled.grid, NormPoolKernel<T, follows>{pooled.shape, given.pool, input,
                                                    given.statistics, output, given.marks});
      });
  }
}

template <class T, NormWith with, class Run>
void backward_passes(const NormBackwardArguments& given, Run& run) {
  const auto [shape, grid] = norm_grid(given.rows, given.channels);
  NormSlopes<T, with> slopes{static_cast<const T*>(given.gradient),
                             static_cast<const T*>(given.added),
                             static_cast<const T*>(given.input),
                             static_cast<const T*>(given.residual),
                             static_cast<const T*>(given.output),
                             given.marks,
                             given.statistics,
                             given.pool,
                             given.channels};
  auto* const before = static_cast<T*>(given.before);
  constexpr int kinds = norm_sums<with>;
  auto sums_grid = grid;
  sums_grid.shared = NormShared::bytes(grid, kinds);
  with_follows<with>(given.follows, [&]<NormFollows follows>() {
    run(sums_grid, NormSumsKernel<T, follows, with>{shape, slopes, before, given.partial});
  });
  const auto line_grid = norm_channel_grid(shape, 2);
  run(line_grid, NormLineKernel{shape, kinds, 1, given.partial, given.statistics, given.training,
                                given.for_weight, given.for_bias, given.line});
  if constexpr (with == NormWith::residual_norm)
    run(line_grid, NormLineKernel{shape, kinds, 2, given.partial,
                                  given.statistics + norm_statistics * given.channels,
                                  given.training, given.for_residual_weight,
                                  given.for_residual_bias, given.line + 2 * given.channels});
  if (given.for_input == nullptr && given.for_residual == nullptr) return;
  auto left = given.follows;
  if (before != nullptr) {
    slopes.gradient = before;
    slopes.added = slopes.residual = slopes.output = nullptr;
    slopes.marks = nullptr;
    left = NormFollows::nothing;
  }
  with_follows<with>(left, [&]<NormFollows follows>() {
    run(grid, NormGradientKernel<T, follows, with>{shape, slopes, given.line,
                                                   static_cast<T*>(given.for_input),
                                                   static_cast<T*>(given.for_residual)});
  });
}

template <class T, class Run>
void backward_passes(const NormBackwardArguments& given, Run& run) {
  switch (given.with) {
    case NormWith::nothing:
      return backward_passes<T, NormWith::nothing>(given, run);
    case NormWith::residual_norm:
      return backward_passes<T, NormWith::residual_norm>(given, run);
    case NormWith::pool:
      return backward_passes<T, NormWith::pool>(given, run);
  }
}

}  // namespace composer::cuda
