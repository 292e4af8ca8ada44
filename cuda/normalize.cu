#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/normalize_kernels.h"
#include "cuda/normalize_launch.h"
#include "cuda/queue.h"

namespace composer::cuda {

int normalize_images(const NormalizeArguments& arguments, void* stream) {
  Queue queue(stream);
  switch (arguments.type) {
    case NumberType::fp32:
      normalize_pass<float>(arguments, queue);
      break;
    case NumberType::fp16:
      normalize_pass<__half>(arguments, queue);
      break;
    case NumberType::bf16:
      normalize_pass<__nv_bfloat16>(arguments, queue);
      break;
  }
  return queue.error();
}

}  // namespace composer::cuda
