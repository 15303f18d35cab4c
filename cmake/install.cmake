# find_package(gpukit) gives gpukit::gpukit.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gpukit")

install(TARGETS gpukit EXPORT gpukitTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
install(DIRECTORY gpukit DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library FILES_MATCHING
        PATTERN "*.h" PATTERN "*_py.h" EXCLUDE PATTERN "python" EXCLUDE)
install(EXPORT gpukitTargets NAMESPACE gpukit:: DESTINATION "${package_dir}" COMPONENT library)
configure_package_config_file(cmake/gpukitConfig.cmake.in "${CMAKE_BINARY_DIR}/gpukitConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/gpukitConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/gpukitConfig.cmake" "${CMAKE_BINARY_DIR}/gpukitConfigVersion.cmake"
        DESTINATION "${package_dir}" COMPONENT library)
