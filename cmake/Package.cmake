# cmake --install: headers, libraries, the program, and what find_package(composer) needs.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/composer)

install(TARGETS composer_core composer_log composer_remote composer_algorithms composer_models composer_data composer_inference composer_analysis composer_scale composer_cli EXPORT composer
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS composer run_composer_trainer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(part composer algorithms models data inference analysis scale cli)
  install(DIRECTORY ${part} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/composer FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT composer NAMESPACE composer:: DESTINATION ${package_dir} FILE composerTargets.cmake)
configure_package_config_file(cmake/composerConfig.cmake.in composerConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(composerConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/composerConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/composerConfigVersion.cmake
  cmake/LibTorch.cmake DESTINATION ${package_dir})
