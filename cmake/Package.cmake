# cmake --install: headers, libraries, the program, and what find_package(composer) needs. In packages, which are moved to
# other machines, a launcher starts the program with the LibTorch that it is told of:
#   component  in cmake --install  in packages  what
#   library    yes                 yes          headers, archives, the CMake package
#   program    yes                 no           the programs, which know the place of LibTorch here
#   package    no                  yes          launchers, and the program behind them
#   carried    no                  yes          the libraries of this machine that the program needs; not Debian's package
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/composer)
set(programs_dir ${CMAKE_INSTALL_LIBDIR}/composer)
set(documents_dir ${CMAKE_INSTALL_DATADIR}/doc/composer)

install(TARGETS composer_base composer_reading composer_nn composer_core composer_algorithms composer_models composer_data composer_inference composer_analysis composer_scale composer_cli EXPORT composer
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(TARGETS composer run_composer_trainer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
foreach(part base nn composer algorithms models data inference analysis scale)
  install(DIRECTORY ${part} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/composer COMPONENT library FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES cli/main.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/composer/cli COMPONENT library)
install(EXPORT composer NAMESPACE composer:: DESTINATION ${package_dir} FILE composerTargets.cmake COMPONENT library)
configure_package_config_file(cmake/composerConfig.cmake.in composerConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(composerConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/composerConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/composerConfigVersion.cmake
  cmake/LibTorch.cmake cmake/Libraries.cmake DESTINATION ${package_dir} COMPONENT library)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/composerBuiltWith.cmake "set(LIBTORCH \"${LIBTORCH}\")\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/composerBuiltWith.cmake DESTINATION ${package_dir} COMPONENT program)

# The libraries that it carries need others, which lie beside the program as they do: DT_RPATH is looked at for these too,
# DT_RUNPATH is not.
add_executable(packaged_composer ${PROJECT_SOURCE_DIR}/cli/composer.cpp)
target_link_libraries(packaged_composer PRIVATE composer::cli)
target_link_options(packaged_composer PRIVATE -s -Wl,--disable-new-dtags)
set_target_properties(packaged_composer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/package
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH $ORIGIN)
install(PROGRAMS $<TARGET_FILE:packaged_composer> RENAME composer DESTINATION ${programs_dir} COMPONENT package EXCLUDE_FROM_ALL)
add_custom_target(package_files)
add_dependencies(package_files packaged_composer)
foreach(target composer_cuda composer_loader_package)
  if(TARGET ${target})
    add_dependencies(package_files ${target})
  endif()
endforeach()

configure_file(packaging/launcher.in package/launcher @ONLY)
foreach(name composer run_composer_trainer)
  install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/package/launcher RENAME ${name} DESTINATION ${CMAKE_INSTALL_BINDIR}
    COMPONENT package EXCLUDE_FROM_ALL)
endforeach()
install(PROGRAMS packaging/run_composer_trainer DESTINATION ${programs_dir} COMPONENT package EXCLUDE_FROM_ALL)
install(FILES LICENSE DESTINATION ${documents_dir} COMPONENT package EXCLUDE_FROM_ALL)

# The library's headers include these.
get_target_property(json_headers nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
list(GET json_headers 0 json_headers)
install(DIRECTORY ${json_headers}/nlohmann DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/composer COMPONENT carried EXCLUDE_FROM_ALL)

configure_file(packaging/carry.cmake.in package/carry.cmake @ONLY)
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/package/program.cmake CONTENT "set(program \"$<TARGET_FILE:packaged_composer>\")\n")
install(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/package/carry.cmake COMPONENT carried EXCLUDE_FROM_ALL)

# cpack: a tarball, and a Debian package where its tools are. Debian's name composer is taken by a tool of PHP.
set(CPACK_GENERATOR TGZ)
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(FILE_COMMAND file)
if(DPKG_SHLIBDEPS AND FILE_COMMAND)
  list(APPEND CPACK_GENERATOR DEB)
else()
  message(STATUS "cpack makes no Debian package: dpkg-shlibdeps (of dpkg-dev) or file is missing")
endif()
set(CPACK_PACKAGE_CONTACT "the maintainers of composer")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/dist)
set(CPACK_PACKAGE_FILE_NAME composer-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL library package carried)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/packaging/cpack.cmake)
set(CPACK_DEBIAN_PACKAGE_NAME composer-cnn)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONFLICTS composer)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${LIBTORCH}/lib ${LIBTORCH}/../nvidia/cu13/lib)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake, nlohmann-json3-dev, libyaml-cpp-dev, libspdlog-dev, libjpeg-dev, libpng-dev, libgif-dev, libtiff-dev, libwebp-dev, zlib1g-dev, libzstd-dev, libssl-dev, libhwy-dev, libhwloc-dev, libcurl4-openssl-dev")
include(CPack)
