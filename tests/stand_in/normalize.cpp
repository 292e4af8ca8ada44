// Stands in for libcomposer_cuda.so: its kernels of normalisation, run by the host.
#include "nn/network/normalize.h"

#include "cuda/normalize_call.h"
#include "cuda/normalize_kernels.h"
#include "tests/on_host.h"
#include "tests/stand_in/log.h"

extern "C" bool composer_normalize(const at::Tensor& images, const float* scale, const float* shift,
                                   const at::Tensor& output) {
  using namespace composer::cuda;
  const auto given = normalize_arguments(images, scale, shift, output);
  if (!given) return false;
  composer::stand_in::note(std::string("normalised to ") + at::toString(output.scalar_type()));
  OnHost run;
  with_type<at::Half, at::BFloat16>(given->type,
                                    [&]<class T>() { normalize_pass<T>(*given, run); });
  return true;
}
