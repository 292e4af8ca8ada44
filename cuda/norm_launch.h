// Batch normalisation on the current GPU: the interface from norm.cpp, which knows tensors, to
// norm.cu, which knows none. Pointers are to GPU memory; the calls do not wait.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch.h"

namespace composer::cuda {

enum class NormFollows { nothing, relu, gelu };

/// rows: pixels of all images. channels: a multiple of 8. A null pointer means that there is no
/// such tensor.
struct NormForwardArguments {
  NumberType type;
  int64_t rows;
  int channels;
  NormFollows follows;
  const void *input, *residual;
  const float *weight, *bias;
  float *running_mean, *running_var;
  float eps, momentum;
  bool training;
  float* statistics;  ///< [4, channels], written
  float* partial;     ///< [norm_partial_size()], overwritten; with training
  void* output;
  uint8_t* marks;  ///< [rows, channels / 8]: what ReLU passed; written unless null
};

struct NormBackwardArguments {
  NumberType type;
  int64_t rows;
  int channels;
  NormFollows follows;
  bool training;
  const void *gradient, *added;  ///< added: a further gradient of the output
  const void *input, *residual, *output;
  const uint8_t* marks;     ///< of the forward pass, in place of the output
  const float* statistics;  ///< of the forward pass
  float* partial;           ///< [norm_partial_size()], overwritten
  float* line;              ///< [2, channels], overwritten
  /// The gradient before the activation, which is the residual's; it may be `added`. Not null where
  /// something is added. This and the following are written unless null.
  void* before;
  float *for_weight, *for_bias;
  void* for_input;
};

size_t norm_partial_size(int64_t rows, int channels);

/// Queues the work on `stream`, a cudaStream_t. Returns cudaGetLastError().
int norm_forward(const NormForwardArguments& arguments, void* stream);
int norm_backward(const NormBackwardArguments& arguments, void* stream);

}  // namespace composer::cuda
