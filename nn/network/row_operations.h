// Operations on images whose rows are divided among ranks, with their gradients. What each rank
// computes is its part of what one would of whole images: outputs by rows (own_rows()), gradients
// of a loss that is the sum of all ranks', and of parameters this rank's part of them, to be summed
// with the others. Every rank of an image calls the same ones in the same order, with
// its rows [N, C, rows, W], perhaps none.
#pragma once

#include "nn/network/operations.h"
#include "nn/network/row_exchange.h"

namespace composer {

RowWindow row_window(const Conv2dOptions& options);
RowWindow row_window(const Pool2dOptions& options);

/// op::conv2d. exchange: of the rows of `input` by row_window(options). Keeps no more for the
/// gradient than the input and the rows of others.
at::Tensor conv2d_by_rows(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                          const Conv2dOptions& options, const RowExchange& exchange);

/// op::max_pool2d, in the same way.
at::Tensor max_pool2d_by_rows(const at::Tensor& input, const Pool2dOptions& options,
                              const RowExchange& exchange);

/// op::avg_pool2d. exchange: with windows that are cut off.
at::Tensor avg_pool2d_by_rows(const at::Tensor& input, const Pool2dOptions& options,
                              const RowExchange& exchange);

/// op::mean: [N, C], the same on all ranks. height: of whole images.
at::Tensor mean_by_rows(const at::Tensor& input, int64_t height, const Ranks& ranks);

/// op::group_norm with weight and bias. height: of whole images.
at::Tensor group_norm_by_rows(const at::Tensor& input, const at::Tensor& weight,
                              const at::Tensor& bias, const GroupNormOptions& options,
                              int64_t height, const Ranks& ranks);

}  // namespace composer
