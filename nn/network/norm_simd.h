// The passes of a batch normalisation over memory, with what follows it. Values stand in rows; each
// column of a row has its own parameters: a row is a pixel's channels, a repetition of them, or
// some channels' pixels. Values are float32 or bfloat16 (rounded to nearest, halves to even), all
// else is float32. The same expression gives a value before its activation in every pass: what the
// backward pass takes as cut off by ReLU is what the forward pass wrote as 0.
#pragma once

#include <cstdint>

#include "nn/network/activation.h"

namespace composer {

struct NormRows {
  int64_t rows, width;
  int64_t stride;  ///< values from one row's begin to the next one's
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

/// What of the output's gradient reaches the value before the activation.
enum class NormSlope {
  one,           ///< all
  relu,          ///< where input * scale + shift does not make 0
  relu_of_rest,  ///< where `rest`, the output, is not 0
  gelu,          ///< times the slope at input * scale + shift
  gelu_of_rest,  ///< at input * scale + shift + rest, the residual
};

/// slope * (gradient + added): its sums, sum[column] by itself and products[column] times input -
/// centre; and itself as `sloped`, where that is not null. What is added may be null, and may be
/// `sloped`; the sum is rounded as the values are. What a slope does not need may be null; without
/// an input the products mean nothing.
struct NormGradientSums {
  const void *gradient, *added, *input, *rest;
  const float *scale, *shift, *centre;
  float *sum, *products;
  void* sloped;
};
void norm_gradient_sums(const NormRows& rows, NormSlope slope, const NormGradientSums& pass);

/// input_gradient = slope * gradient * scale + (input - centre) * tilt + offset; without the last
/// two terms where tilt is null. slope: no gelu.
struct NormGradientApply {
  const void *gradient, *input, *rest;
  const float *scale, *shift, *centre, *tilt, *offset;
  void* input_gradient;
};
void norm_gradient_apply(const NormRows& rows, NormSlope slope, const NormGradientApply& pass);

}  // namespace composer
