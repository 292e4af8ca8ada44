# libcomposer_cuda.so and the program must agree on these headers. CUDA_INTERFACE defines the number that tells: what reads it
# is compiled with it.
set(headers nn/distributed/nccl.h nn/network/activation.h nn/network/norm_call.h nn/network/operations.h
  nn/network/normalize.h composer/run/step_recorder.h)
set(sums)
foreach(header ${headers})
  set(header ${PROJECT_SOURCE_DIR}/${header})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(SHA256 ${header} sum)
  string(APPEND sums ${sum})
endforeach()
string(SHA256 sum ${sums})
string(SUBSTRING ${sum} 0 16 sum)
set(CUDA_INTERFACE "CUDA_INTERFACE=\"${sum}\"")
