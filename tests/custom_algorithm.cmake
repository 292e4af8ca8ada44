# The example of a custom algorithm, as a user has it: composer is installed, the example is built outside the tree against
# the package; it trains by its recipe, takes overrides, describes itself, and resumes to the same bytes.
# Run with: cmake -DBUILD=<build folder> -DEXAMPLE=<examples/custom_algorithm> -DFOLDER=<scratch> -P custom_algorithm.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with status ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix)
run(${CMAKE_COMMAND} -S ${EXAMPLE} -B ${FOLDER}/build -G Ninja -DCMAKE_PREFIX_PATH=${FOLDER}/prefix)
run(${CMAKE_COMMAND} --build ${FOLDER}/build)
set(PROGRAM ${FOLDER}/build/gradient_noise)
set(RECIPE ${EXAMPLE}/gradient_noise.yaml)

run(${FOLDER}/prefix/bin/composer list algorithms)
run(${PROGRAM} describe algorithm gradient_noise)
if(NOT output MATCHES "standard deviation of the noise")
  message(FATAL_ERROR "describe does not show the hyperparameters:\n${output}")
endif()
run(${PROGRAM} train -f ${RECIPE} --plan)
if(NOT output MATCHES "after_train_batch: gradient_noise")
  message(FATAL_ERROR "--plan does not show the algorithm:\n${output}")
endif()

function(train name)
  run(${PROGRAM} train -f ${RECIPE} --run_dir ${FOLDER} --run_name ${name} --device cpu --progress_bar false
    --train_batch_size 16 --until 100ba ${ARGN})
endfunction()

train(whole --max_duration 4ba)
train(begun --max_duration 2ba)
train(resumed --max_duration 4ba --load_path ${FOLDER}/begun/checkpoints/latest)
train(quiet --max_duration 4ba --algorithms.gradient_noise.scale 0)

file(STRINGS ${FOLDER}/whole/metrics.jsonl noisy REGEX "\"gradient_noise/deviation\":0.0")
list(LENGTH noisy batches)
if(NOT batches EQUAL 4)
  message(FATAL_ERROR "metrics.jsonl has gradient_noise/deviation in ${batches} lines, not in 4")
endif()

foreach(run whole resumed quiet)
  file(SHA256 ${FOLDER}/${run}/checkpoints/latest/model-00001-of-00001.safetensors ${run})
endforeach()
if(NOT whole STREQUAL resumed)
  message(FATAL_ERROR "the resumed run has other weights than the whole one")
endif()
if(whole STREQUAL quiet)
  message(FATAL_ERROR "the noise has no effect on the weights")
endif()
