# The example of a custom algorithm trains, logs, and resumes to the same bytes.
# Run with: cmake -DPROGRAM=<gradient_noise> -DRECIPE=<gradient_noise.yaml> -DFOLDER=<scratch> -P custom_algorithm.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})

function(train name)
  execute_process(
    COMMAND ${PROGRAM} train -f ${RECIPE} --run_dir ${FOLDER} --run_name ${name} --device cpu --progress_bar false
      --train_batch_size 16 --until 100ba ${ARGN}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${name} ended with status ${status}:\n${output}")
  endif()
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
