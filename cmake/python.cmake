# The extension module pygpukit/_core.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT nanobind_ROOT AND NOT nanobind_DIR)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_STRIP_TRAILING_WHITESPACE
                  OUTPUT_VARIABLE nanobind_ROOT ERROR_QUIET)
endif()
find_package(nanobind 3 CONFIG REQUIRED)

gpukit_bindings(bindings)
gpukit_build_small(${bindings})
gpukit_bind_all("${CMAKE_BINARY_DIR}/generated/bind_all.cpp" ${bindings})
file(GLOB module_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/gpukit/python/*.cpp")

# A binding is on the path of every call: built for speed, not for size.
nanobind_add_module(_core NB_STATIC NOMINSIZE ${module_sources} ${bindings}
                    "${CMAKE_BINARY_DIR}/generated/bind_all.cpp")
# Kernel sets register themselves when loaded, so every object of the library must be in.
target_link_libraries(_core PRIVATE gpukit_flags "$<LINK_LIBRARY:WHOLE_ARCHIVE,gpukit>")
if(UNIX AND NOT APPLE)
  target_link_options(_core PRIVATE -Wl,--as-needed -Wl,--exclude-libs,ALL)
endif()
install(TARGETS _core LIBRARY DESTINATION pygpukit COMPONENT python)
# A module of its own beside the package: the runtime under the name it had in the 0.2 series.
install(FILES "${CMAKE_SOURCE_DIR}/python/_pygpukit_rust.py" DESTINATION . COMPONENT python)
if(GPUKIT_BUNDLE)
  install(FILES "${GPUKIT_BUNDLE}" DESTINATION pygpukit RENAME kernels.bundle COMPONENT python)
endif()
