// Batch normalisation on the current GPU: the interface from norm.cpp, which knows tensors, to
// norm.cu, which knows none. Pointers are to GPU memory; the calls do not wait.
#pragma once

#include <cstdint>

#include "cuda/launch.h"
#include "cuda/norm_pool.h"

namespace composer::cuda {

enum class NormFollows { nothing, relu, gelu };

/// What else is one with the norm: a norm of the residual, not with GELU; or a max pool after the
/// activation, not with a residual.
enum class NormWith { nothing, residual_norm, pool };

/// Tensors [channels]; weight and bias may be null.
struct NormParameters {
  const float *weight, *bias;
  float *running_mean, *running_var;
  float eps, momentum;
};

/// rows: pixels of all images. channels: a multiple of 8. A null pointer means that there is no
/// such tensor.
struct NormForwardArguments {
  NumberType type;
  int64_t rows;
  int channels;
  NormFollows follows;
  NormWith with;
  NormPool pool;
  const void *input, *residual;
  NormParameters norm, residual_norm;
  bool training;
  float* statistics;  ///< [4, channels], with a residual's norm [8, channels]; written
  float* partial;     ///< [partial_size()], overwritten; with training
  void* output;
  /// [rows, channels / 8]: what ReLU passed; with a pool, of the output's size: where each value
  /// stands in its window. Written unless null.
  uint8_t* marks;
};

struct NormBackwardArguments {
  NumberType type;
  int64_t rows;
  int channels;
  NormFollows follows;
  NormWith with;
  NormPool pool;
  bool training;
  const void *gradient, *added;  ///< added: a further gradient of the output; not with a pool
  const void *input, *residual, *output;
  const uint8_t* marks;     ///< of the forward pass, in place of the output
  const float* statistics;  ///< of the forward pass
  float* partial;           ///< [partial_size()], overwritten
  float* line;              ///< [2, channels], with a residual's norm [4, channels]; overwritten
  /// The gradient before the activation, which is the residual's; it may be `added`. Not null where
  /// something is added, but null with a residual's norm or a pool. This and the following are
  /// written unless null.
  void* before;
  float *for_weight, *for_bias;
  void* for_input;
  float *for_residual_weight, *for_residual_bias;
  void* for_residual;  ///< with a residual's norm
};

/// Queues the work on `stream`, a cudaStream_t. Returns cudaGetLastError().
int norm_forward(const NormForwardArguments& arguments, void* stream);
int norm_backward(const NormBackwardArguments& arguments, void* stream);

}  // namespace composer::cuda
