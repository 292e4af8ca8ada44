// The kernels of a forward and a backward pass. `run` is called as run(grid, kernel), in order.
#pragma once

#include "cuda/norm_kernels.h"
#include "cuda/norm_launch.h"

namespace composer::cuda {

inline size_t partial_size(int64_t rows, int channels) {
  return 2 * static_cast<size_t>(channels) *
         static_cast<size_t>(norm_grid(rows, channels).shape.blocks);
}

/// Calls visit.operator()<follows>().
template <class Visit>
void with_follows(NormFollows follows, const Visit& visit) {
  switch (follows) {
    case NormFollows::nothing:
      return visit.template operator()<NormFollows::nothing>();
    case NormFollows::relu:
      return visit.template operator()<NormFollows::relu>();
    case NormFollows::gelu:
      return visit.template operator()<NormFollows::gelu>();
  }
}

template <class T, class Run>
void forward_passes(const NormForwardArguments& given, Run& run) {
  const auto [shape, grid] = norm_grid(given.rows, given.channels);
  const auto* const input = static_cast<const T*>(given.input);
  if (given.training) run(grid, NormMomentsKernel<T>{shape, input, given.partial});
  run(norm_channel_grid(shape, 3),
      NormStatisticsKernel{shape, given.training ? given.partial : nullptr, given.weight,
                           given.bias, given.running_mean, given.running_var, given.eps,
                           given.momentum, given.statistics});
  with_follows(given.follows, [&]<NormFollows follows>() {
    run(grid,
        NormApplyKernel<T, follows>{shape, input, static_cast<const T*>(given.residual),
                                    given.statistics, static_cast<T*>(given.output), given.marks});
  });
}

template <class T, class Run>
void backward_passes(const NormBackwardArguments& given, Run& run) {
  const auto [shape, grid] = norm_grid(given.rows, given.channels);
  NormSlopes<T> slopes{static_cast<const T*>(given.gradient),
                       static_cast<const T*>(given.added),
                       static_cast<const T*>(given.input),
                       static_cast<const T*>(given.residual),
                       static_cast<const T*>(given.output),
                       given.marks,
                       given.statistics};
  auto* const before = static_cast<T*>(given.before);
  with_follows(given.follows, [&]<NormFollows follows>() {
    run(grid, NormSumsKernel<T, follows>{shape, slopes, before, given.partial});
  });
  run(norm_channel_grid(shape, 2),
      NormLineKernel{shape, given.partial, given.statistics, given.training, given.for_weight,
                     given.for_bias, given.line});
  if (given.for_input == nullptr) return;
  auto left = given.follows;
  if (before != nullptr) {
    slopes.gradient = before;
    slopes.added = slopes.residual = slopes.output = nullptr;
    slopes.marks = nullptr;
    left = NormFollows::nothing;
  }
  with_follows(left, [&]<NormFollows follows>() {
    run(grid, NormGradientKernel<T, follows>{shape, slopes, given.line,
                                             static_cast<T*>(given.for_input)});
  });
}

}  // namespace composer::cuda
