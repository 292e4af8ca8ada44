// The passes of a batch normalisation, with residual and activation, over memory. Values are in
// rows; each column of a row has its own parameters. A row holds a pixel's channels, repetitions of
// them, or pixels of some channels. Values are float32 or bfloat16 (rounded to nearest, ties to
// even); everything else is float32. Every pass computes the value before the activation by the
// same expression, so ReLU's backward pass cuts off exactly the values that the forward pass wrote
// as 0.
#pragma once

#include <cstdint>

#include "nn/network/activation.h"

namespace composer {

struct NormRows {
  int64_t rows, width;
  int64_t stride;  ///< values from the beginning of one row to the next
  bool bf16;
};

/// sum[column] = sum of value - centre, squares[column] = sum of (value - centre)^2.
struct NormMoments {
  const void* input;
  const float* centre;
  float *sum, *squares;
};
void norm_moments(const NormRows& rows, const NormMoments& pass);

/// output = activation(input * scale + shift + residual); residual may be null.
struct NormApply {
  const void *input, *residual;
  const float *scale, *shift;
  void* output;
};
void norm_apply(const NormRows& rows, Activation activation, const NormApply& pass);

/// The factor of the output's gradient that gives the gradient before the activation.
enum class NormSlope {
  one,           ///< 1
  relu,          ///< 1 where relu(input * scale + shift) is not stored as 0, else 0
  relu_of_rest,  ///< 1 where `rest`, the output, is not 0, else 0
  gelu,          ///< the slope of GELU at input * scale + shift
  gelu_of_rest,  ///< the slope of GELU at input * scale + shift + rest, the residual
};

/// With d = slope * (gradient + added): sum[column] = sum of d, products[column] = sum of d *
/// (input - centre), and d itself in `sloped`, where that is not null. `added` may be null, and may
/// be `sloped`; gradient + added is rounded to the values' type. Arguments that the slope does not
/// need may be null; without an input the products are meaningless.
struct NormGradientSums {
  const void *gradient, *added, *input, *rest;
  const float *scale, *shift, *centre;
  float *sum, *products;
  void* sloped;
};
void norm_gradient_sums(const NormRows& rows, NormSlope slope, const NormGradientSums& pass);

/// input_gradient = slope * gradient * scale + (input - centre) * tilt + offset; without the last
/// two terms where tilt is null. slope: not GELU's.
struct NormGradientApply {
  const void *gradient, *input, *rest;
  const float *scale, *shift, *centre, *tilt, *offset;
  void* input_gradient;
};
void norm_gradient_apply(const NormRows& rows, NormSlope slope, const NormGradientApply& pass);

}  // namespace composer
