# cmake -DPROGRAM=test_x -DCASES=SPEC -DFOLDER=where -P quick.cmake: runs the cases. What they report, failures and skips, is
# printed first and by itself, for the program's own output is long; of that, its end where something failed.
get_filename_component(name ${PROGRAM} NAME)
set(report ${FOLDER}/${name}.report)
set(output ${FOLDER}/${name}.output)
file(REMOVE ${report})
execute_process(COMMAND ${PROGRAM} ${CASES} --reporter compact --out ${report} RESULT_VARIABLE status
                OUTPUT_FILE ${output} ERROR_FILE ${output})
if(EXISTS ${report})
  file(READ ${report} text)
  message("${text}")
endif()
if(NOT status EQUAL 0)
  execute_process(COMMAND tail -n 60 ${output} OUTPUT_VARIABLE text)
  message("The end of what ${name} wrote, whole in ${output}:\n${text}")
  message(FATAL_ERROR "${name}: ${status}")
endif()
