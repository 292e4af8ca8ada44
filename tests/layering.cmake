# Fails, with the offending line, when an #include points the wrong way: a folder includes those on earlier rows of the table
# that its row allows, nothing else of this project; when an algorithm includes another (what they share is in
# algorithms/parts/); when a file lies in a folder that has no row; or when a third-party header is included outside the files
# that own it.
# Run with: cmake -DROOT=<repository> -P layering.cmake
cmake_minimum_required(VERSION 3.25)

# Folders, lowest first. A row: folder "of" a regular expression of the folders that it may include; without "of": all that
# come before it. A folder may always include itself.
set(table
  "base"
  "base/loading"
  "base/params"
  "base/files"
  "base/process"
  "base/remote"
  "base/keys"
  "data/files of ^base"
  "data/pixels of ^base"
  "data/jpeg of ^(base|data)"
  "data/formats of ^(base|data)"
  "data/index of ^(base|data)"
  "data/samples of ^(base|data)"
  "data/loading of ^(base|data)"
  "data/beton of ^(base|data)"
  "data/shards of ^(base|data)"
  "nn/device of ^base"
  "nn of ^(base|nn)"
  "nn/distributed of ^(base|nn)"
  "nn/network of ^(base|nn)"
  "nn/optimization of ^(base|nn)"
  "nn/profiling of ^(base|nn)"
  "composer/logging of ^(base|nn)"
  "composer/loop of ^(base|nn|composer)"
  "composer/recipe of ^(base|nn|composer)"
  "composer/callbacks of ^(base|nn|composer)"
  "composer/checkpoint of ^(base|nn|composer)"
  "composer/run of ^(base|nn|composer)"
  "composer/comparison of ^(base|nn|composer)"
  "composer of ^(base|nn|composer)"
  "models of ^(base|nn|composer)"
  "algorithms/parts of ^(base|nn|composer)"
  "algorithms/augmentation of ^(base|nn|composer|algorithms)"
  "algorithms of ^(base|nn|composer|algorithms)"
  "data/batches of ^(base|nn|composer|data)"
  "data/datasets of ^(base|nn|composer|data)"
  "python of ^(base|data|python)"
  "inference/graph of ^(base|nn|composer)"
  "inference/quantization of ^(base|nn|composer|inference)"
  "inference of ^(base|nn|composer|inference)"
  "inference/onnx of ^(base|nn|composer|inference)"
  "analysis of ^(base|nn|composer)"
  "analysis/trace of ^(base|nn|composer|analysis)"
  "scale of ^(base|nn|composer)"
  "cuda of ^(base|nn|composer)"
  "cli of ^(base|nn|composer|algorithms|models|data|inference|analysis|scale|cli)"
  "examples of ^(base|nn|composer|algorithms|models|data|inference|analysis|scale|cli)"
)

# header pattern by files that may include it, relative to ROOT; the first pattern that matches decides
set(owned
  "CLI/ by ^cli/"
  "(jpeglib|jerror|jmorecfg|turbojpeg)\\.h by ^data/jpeg/"
  "png(conf)?\\.h by ^data/formats/png\\.cpp$"
  "gif_lib\\.h by ^data/formats/gif\\.cpp$"
  "tiff(io)?\\.h by ^data/formats/tiff\\.cpp$"
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
  "torch/torch\\.h by ^$"  # nobody: it includes all of LibTorch
  # Neither base/ nor what reads data.
  "(torch|ATen|c10|caffe2)/ by ^(nn|composer|models|algorithms|inference|scale|cuda|cli|examples|data/batches|data/datasets)/"
)

set(folders "")
foreach(row IN LISTS table)
  string(REGEX REPLACE " of .*$" "" folder "${row}")
  list(APPEND folders ${folder})
  set(may_${folder} ".")
  if(row MATCHES " of (.*)$")
    set(may_${folder} "${CMAKE_MATCH_1}")
  endif()
  string(REGEX MATCH "^[^/]+" top "${folder}")
  list(APPEND tops ${top})
endforeach()
list(REMOVE_DUPLICATES tops)

set(problems "")

# The row of a file or header in `result`; of examples/, the top folder has that of all below.
function(row_of path result)
  get_filename_component(folder "${path}" DIRECTORY)
  if(folder MATCHES "^examples/")
    set(folder examples)
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

function(check_include file header)
  row_of("${file}" folder)
  row_of("${header}" target)
  string(REGEX MATCH "^[^/]+" top "${header}")
  list(FIND folders "${folder}" row)
  list(FIND folders "${target}" target_row)
  set(problem "")
  if("${top}" IN_LIST tops AND NOT "${target}" STREQUAL "${folder}")
    if(target_row EQUAL -1)
      set(problem "no such folder")
    elseif(target_row GREATER row OR NOT "${target}" MATCHES "${may_${folder}}")
      set(problem "${folder}/ may not include ${target}/")
    endif()
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
foreach(top IN LISTS tops)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${top}/*.h ${ROOT}/${top}/*.cpp ${ROOT}/${top}/*.cu)
  foreach(file IN LISTS files)
    row_of("${file}" folder)
    if(NOT "${folder}" IN_LIST folders)
      string(APPEND problems "\n${file}: the table has no row for ${folder}/")
      continue()
    endif()
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
