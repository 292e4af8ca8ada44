#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/normalize_kernels.h"
#include "cuda/normalize_launch.h"
#include "cuda/queue.h"

namespace composer::cuda {

int normalize_images(const NormalizeArguments& arguments, void* stream) {
  Queue queue(stream);
  with_type<__half, __nv_bfloat16>(arguments.type,
                                   [&]<class T>() { normalize_pass<T>(arguments, queue); });
  return queue.error();
}

}  // namespace composer::cuda
