# Compiler settings of this project's own targets: warnings, ccache, the precompiled LibTorch header.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers are cached only with this sloppiness.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms of GCC 12 on std::string's operator+ (GCC bugs 105329, 105651).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>)
endif()
if(CMAKE_UNITY_BUILD)
  # GCC takes the sources for headers, where types of unnamed namespaces would be wrong.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  # A compilation takes up to 2.5 GB: no more at a time than memory holds.
  cmake_host_system_information(RESULT compilations QUERY TOTAL_PHYSICAL_MEMORY)
  math(EXPR compilations "${compilations} / 2500")
  if(compilations LESS 1)
    set(compilations 1)
  endif()
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS compilations=${compilations})
  set(CMAKE_JOB_POOL_COMPILE compilations)
endif()
if(COMPOSER_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(NOT COMPOSER_AVX512)
  add_compile_definitions(COMPOSER_NO_AVX512)
endif()

# The same bytes of pixels on every processor: nothing is fused that the source does not fuse. Plain x86-64 has no such
# instructions; files for those that do say so themselves.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
endif()

# In a unity build: sources whose names in unnamed namespaces are those of other sources.
function(compile_alone target)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Sources that include nothing of LibTorch: its precompiled header would cost each 2 s. They become a library of objects that
# is part of the target, so that a unity build takes them together.
function(compile_without_torch target)
  set(objects ${target}_without_torch)
  add_library(${objects} OBJECT ${ARGN})
  target_compile_features(${objects} PUBLIC cxx_std_20)
  target_include_directories(${objects} PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_compile_options(${objects} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_OPTIONS>)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
endfunction()

# The same for sources with options of their own.
function(compile_alone_without_torch target)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  compile_alone(${target} ${ARGN})
endfunction()

# Sources of vector kernels, compiled once for each of Highway's targets and once as plain code; the best that the CPU has
# is chosen when the program runs. Each gives the plain code's bits: nothing is fused that the source does not fuse. Of Arm's
# there is NEON alone: the kernels keep vectors in arrays, which SVE's cannot be.
function(compile_kernels target)
  compile_alone_without_torch(${target} ${ARGN})
  set(disabled "HWY_SSSE3|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128")
  if(NOT COMPOSER_AVX512)
    string(APPEND disabled "|HWY_AVX3|HWY_AVX3_DL")
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Highway 1.0's list for AVX3_DL has AVX-VNNI, whose encoding Clang takes; many processors have AVX-512's alone.
    string(APPEND disabled "|HWY_AVX3_DL")
  endif()
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES
    COMPILE_OPTIONS -ffp-contract=off
    COMPILE_DEFINITIONS "HWY_SHARED_DEFINE;HWY_WANT_AVX3_DL;HWY_COMPILE_ALL_ATTAINABLE;HWY_DISABLED_TARGETS=(${disabled})")
endfunction()

# LibTorch's headers take 15-20 s to parse: parse them once.
function(precompile_torch_headers target)
  target_precompile_headers(${target} PRIVATE <torch/nn/module.h> <ATen/ATen.h> <ATen/record_function.h>
    <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional>
    <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
endfunction()
