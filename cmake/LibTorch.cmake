# Defines composer::torch, and LIBTORCH_VERSION as 2.11: LibTorch as found in ${LIBTORCH}, else in the wheel that cmake/bootstrap put into .deps.
# The wheel's own CMake package insists on a CUDA toolkit; these targets need none. torch_cuda is not linked: the
# program opens it at run time when a driver is present.
if(NOT LIBTORCH)
  file(GLOB candidates ${CMAKE_CURRENT_LIST_DIR}/../.deps/venv/lib/python3*/site-packages/torch)
  list(GET candidates 0 LIBTORCH)
endif()
if(NOT EXISTS ${LIBTORCH}/include/ATen/ATen.h)
  message(FATAL_ERROR "LibTorch not found in '${LIBTORCH}': run cmake/bootstrap, or name a folder that holds "
    "LibTorch's include/ and lib/ with -DLIBTORCH=...")
endif()
get_filename_component(LIBTORCH ${LIBTORCH} REALPATH)
file(GLOB header ${LIBTORCH}/include/torch/headeronly/version.h)  # in earlier ones than 2.9 there is none
set(LIBTORCH_VERSION "an earlier one")
if(header)
  file(STRINGS ${header} numbers REGEX "TORCH_VERSION_M(AJ|IN)OR ")
  string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)" "\\1.\\2" LIBTORCH_VERSION "${numbers}")
endif()

if(NOT TARGET composer::torch)
  foreach(name c10 torch_cpu)
    add_library(composer::${name} SHARED IMPORTED)
    set_target_properties(composer::${name} PROPERTIES IMPORTED_LOCATION ${LIBTORCH}/lib/lib${name}.so)
  endforeach()
  add_library(composer::torch INTERFACE IMPORTED)
  target_include_directories(composer::torch SYSTEM INTERFACE
    ${LIBTORCH}/include ${LIBTORCH}/include/torch/csrc/api/include)
  target_link_libraries(composer::torch INTERFACE composer::torch_cpu composer::c10)
  # at::parallel_for is a header template over OpenMP; run it on the pool that LibTorch itself uses.
  target_compile_options(composer::torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
  file(GLOB gomp ${LIBTORCH}/lib/libgomp*.so*)
  target_link_libraries(composer::torch INTERFACE ${gomp})
  if(NOT gomp OR CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # whose code calls a library of its own
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    target_link_libraries(composer::torch INTERFACE OpenMP::OpenMP_CXX)
  endif()
endif()
