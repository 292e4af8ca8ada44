# Read by cpack for each kind of package. Debian's libraries come as packages of their own.
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY OFF)
  set(CPACK_COMPONENTS_ALL library package)
endif()
