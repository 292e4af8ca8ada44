# cmake -DOUTPUT=x.cpp -DFOLDER=analysis/page -P EmbedPage.cmake
# Writes a source file that holds the report's style and script.
set(functions "")
foreach(file style:report.css script:report.js)
  string(REGEX REPLACE ":.*" "" name ${file})
  string(REGEX REPLACE ".*:" "" path ${file})
  file(READ ${FOLDER}/${path} text)
  string(APPEND functions "std::string_view report_${name}() { return R\"PAGE(${text})PAGE\"; }\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"analysis/report.h\"

namespace composer {

${functions}
}  // namespace composer
")
