# benchmarks/gpu_pack and benchmarks/gpu, on the CPU: a small pack trains the quickstart; a stage that fails or hangs is
# recorded, and the next goes on.
# Run with: cmake -DSOURCE_DIR=<repository> -DBUILD=<build folder> -DFOLDER=<scratch> -P gpu_bench.cmake
cmake_minimum_required(VERSION 3.25)
set(PYTHON ${SOURCE_DIR}/.deps/venv/bin/python)
if(NOT EXISTS ${PYTHON})
  message(STATUS "skipped: no ${PYTHON}")
  return()
endif()
file(REMOVE_RECURSE ${FOLDER})

# run(script wanted_status words...): sets output.
function(run script wanted)
  execute_process(COMMAND ${PYTHON} ${SOURCE_DIR}/benchmarks/${script} ${ARGN}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL wanted)
    message(FATAL_ERROR "${script} ${ARGN}\nended with status ${status}, not ${wanted}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# expect(name value path...): what gpu.json of the run `name` has at the path.
function(expect name value)
  file(READ ${FOLDER}/${name}/gpu.json record)
  string(JSON found GET "${record}" ${ARGN})
  if(NOT found MATCHES "^(${value})$")
    message(FATAL_ERROR "${name}: ${ARGN} is '${found}', not '${value}':\n${record}")
  endif()
endfunction()

set(small --build ${BUILD} --without tests libraries mnist cifar10)
run(gpu_pack 0 ${small} --list)
if(NOT output MATCHES "programs/composer")
  message(FATAL_ERROR "--list does not show the program:\n${output}")
endif()
run(gpu_pack 1 ${small} --output ${FOLDER}/large --limit_mib 0.1)
if(NOT output MATCHES "more than the 0.1 MiB.*programs/composer" OR EXISTS ${FOLDER}/large)
  message(FATAL_ERROR "a pack that is too large is not refused:\n${output}")
endif()
run(gpu_pack 0 ${small} --output ${FOLDER}/pack)

set(on_cpu --pack ${FOLDER}/pack --device cpu --tiny)
run(gpu 0 ${on_cpu} --output ${FOLDER}/well --stages prepare quickstart mnist)
expect(well "passed" stages 0 status)
expect(well "quickstart" stages 1 name)
expect(well "passed" stages 1 status)
expect(well "3" stages 1 figures batches)
expect(well "cpu.*" stages 1 figures device)
expect(well "0" stages 1 commands 0 exit_status)
expect(well "skipped" stages 2 status)

# What passed is not done again, but for prepare.
run(gpu 0 ${on_cpu} --output ${FOLDER}/well --stages prepare quickstart graph_resnet50)
expect(well "quickstart" stages 0 name)
expect(well "prepare" stages 1 name)
expect(well "graph_resnet50" stages 2 name)
expect(well "skipped" stages 2 status)

file(WRITE ${FOLDER}/pack/programs/composer "#!/bin/sh\necho broken >&2\nexit 3\n")
run(gpu 1 ${on_cpu} --output ${FOLDER}/broken --stages prepare quickstart airbench94)
expect(broken "failed" stages 0 status)
expect(broken ".*broken.*" stages 0 reason)
expect(broken "skipped" stages 1 status)
expect(broken "3" stages 2 commands 0 exit_status)

file(WRITE ${FOLDER}/pack/programs/composer "#!/bin/sh\nsleep 600\n")
run(gpu 1 ${on_cpu} --output ${FOLDER}/hanging --minutes 0.05 --stages prepare quickstart)
expect(hanging "out of time" stages 0 status)
expect(hanging "out of time" stages 1 status)
