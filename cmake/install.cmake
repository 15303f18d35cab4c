# find_package(gpukit) gives gpukit::gpukit.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gpukit")

install(TARGETS gpukit EXPORT gpukitTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
# Headers for callers: those that neither are nor include what only our own sources see.
gpukit_public_headers(public_headers)
foreach(header ${public_headers})
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "${CMAKE_SOURCE_DIR}/${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}" COMPONENT library)
endforeach()
install(EXPORT gpukitTargets NAMESPACE gpukit:: DESTINATION "${package_dir}" COMPONENT library)
configure_package_config_file(cmake/gpukitConfig.cmake.in "${CMAKE_BINARY_DIR}/gpukitConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/gpukitConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/gpukitConfig.cmake" "${CMAKE_BINARY_DIR}/gpukitConfigVersion.cmake"
        DESTINATION "${package_dir}" COMPONENT library)
