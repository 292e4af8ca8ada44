# cmake -DOUTPUT=x.cpp -DFOLDER=analysis/page -P EmbedPage.cmake
# Writes a source file that holds the pages' styles and script.
set(functions "")
foreach(file report_style:report.css report_script:report.js trace_style:traces.css)
  string(REGEX REPLACE ":.*" "" name ${file})
  string(REGEX REPLACE ".*:" "" path ${file})
  file(READ ${FOLDER}/${path} text)
  string(APPEND functions "std::string_view ${name}() { return R\"PAGE(${text})PAGE\"; }\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"analysis/markup.h\"

namespace composer {

${functions}
}  // namespace composer
")
