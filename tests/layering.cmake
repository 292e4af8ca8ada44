# Fails, with the offending line, when an #include points the wrong way:
#   cli, examples -> {inference, analysis, scale} -> {algorithms, models, data} -> composer -> nn -> base
#   base includes nothing of LibTorch
#   cuda -> composer; nothing includes cuda
# when an algorithm includes another (what they share is in algorithms/parts/), or when a third-party header is included outside the files that own it.
# Run with: cmake -DROOT=<repository> -P layering.cmake
cmake_minimum_required(VERSION 3.25)

set(folders base nn composer algorithms models data inference analysis scale cli cuda examples)
set(base_may base)
set(nn_may base nn)
set(composer_may base nn composer)
set(algorithms_may base nn composer algorithms)
set(models_may base nn composer models)
set(data_may base nn composer data)
set(cuda_may base nn composer cuda)
set(inference_may base nn composer algorithms models data inference)
set(analysis_may base nn composer analysis)
set(scale_may base nn composer scale)
set(cli_may base nn composer algorithms models data inference analysis scale cli)
set(examples_may base nn composer algorithms models data inference analysis scale cli)

# header pattern by files that may include it, relative to ROOT
set(owned
  "CLI/ by ^cli/"
  "(jpeglib|jerror|jmorecfg|turbojpeg)\\.h by ^data/jpeg/"
  "png(conf)?\\.h by ^data/formats/png\\.cpp$"
  "gif_lib\\.h by ^data/formats/gif\\.cpp$"
  "tiff(io)?\\.h by ^data/formats/tiff(_input)?\\.cpp$"
  "webp/ by ^data/formats/webp\\.cpp$"
  "zstd\\.h by ^data/shards/zstd_file\\.cpp$"
  "hwloc(/.*)?\\.h by ^cli/core_binding\\.cpp$"
  "openssl/ by ^(base/remote/signature|data/files/digest)\\.cpp$"
  "curl/ by ^base/remote/[a-z_]+\\.cpp$"
  "spdlog/ by ^base/log\\.cpp$"
  "fmt/ by ^base/log\\.cpp$"
  "yaml-cpp/ by ^(composer/recipe|base/params)/[a-z_]+\\.cpp$"
  "nlohmann/json_fwd\\.hpp by ^[a-z]+/"
  "nlohmann/json\\.hpp by \\.cpp$"
  "torch/csrc/distributed/ by ^(cuda|nn/distributed|nn/network)/"
  "hwy/ by _(inl\\.h|simd\\.cpp)$"
  "torch/torch\\.h by ^$"
  "(torch|ATen|c10|caffe2)/ by ^[^b]"  # all folders but base/
)

set(problems "")

function(check_include file header)
  string(REGEX MATCH "^[^/]+" folder "${file}")
  string(REGEX MATCH "^[^/]+" target "${header}")
  set(problem "")
  if("${target}" IN_LIST folders AND NOT "${target}" IN_LIST ${folder}_may)
    set(problem "${folder}/ may not include ${target}/")
  endif()
  # algorithms/ itself has one header a method; what several share is in the folders below.
  if("${folder}" STREQUAL "algorithms" AND "${header}" MATCHES "^algorithms/([^/]+)\\.h$")
    if(NOT "${file}" MATCHES "^algorithms/(all|${CMAKE_MATCH_1})\\.cpp$")
      set(problem "algorithms do not include each other; what they share is in algorithms/parts/")
    endif()
  endif()
  foreach(rule IN LISTS owned)
    string(REGEX REPLACE " by .*$" "" pattern "${rule}")
    string(REGEX REPLACE "^.* by " "" allowed "${rule}")
    if("${header}" MATCHES "^(${pattern})")
      if(NOT "${file}" MATCHES "${allowed}")
        set(problem "this header is not for this file")
      endif()
      break()
    endif()
  endforeach()
  if(problem)
    set(problems "${problems}\n${file}: #include of ${header}: ${problem}" PARENT_SCOPE)
  endif()
endfunction()

set(checked 0)
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu)
  foreach(file IN LISTS files)
    file(STRINGS ${ROOT}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*).*" "\\1" header "${line}")
      check_include(${file} "${header}")
      math(EXPR checked "${checked} + 1")
    endforeach()
  endforeach()
endforeach()

if(checked EQUAL 0)
  message(FATAL_ERROR "no #include found under '${ROOT}': is ROOT the repository?")
endif()
if(problems)
  message(FATAL_ERROR "Includes against the layers:${problems}")
endif()
message(STATUS "${checked} includes follow the layers")
