# Which file belongs to what, decided by its name.

# Every gpukit/**/*.cpp that is neither binding, test nor benchmark.
function(gpukit_sources result)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/gpukit/*.cpp")
  list(FILTER sources EXCLUDE REGEX "(_py|_test|_bench)\\.cpp$|/gpukit/python/")
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Code that nothing waits for is built small: bindings below jit, and of the scheduler all but its queues and gates.
function(gpukit_build_small)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" OR NOT GPUKIT_SANITIZE STREQUAL "")
    return()
  endif()
  foreach(source ${ARGN})
    if(source MATCHES "/gpukit/scheduler/[a-z]+/(scheduler|task|admission|dispatch|fair_share|pacing)[a-z_]*\\.cpp$" AND
       NOT source MATCHES "_py\\.cpp$")
      continue()
    endif()
    if(source MATCHES "/gpukit/scheduler/|/gpukit/(base|driver|memory|runtime)/.*_py\\.cpp$")
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS -Os)
    endif()
  endforeach()
endfunction()

# Loops of the CPU backend: where errno and floating-point traps do not matter, calls and choices become wide registers.
# Values stay as they are.
function(gpukit_build_wide)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()
  foreach(source ${ARGN})
    if(source MATCHES "/gpukit/ops/(elementwise|reduce|softmax|norm|common)/[a-z_]*_(cpu|loops)\\.cpp$")
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-fno-math-errno;-fno-trapping-math")
    endif()
  endforeach()
endfunction()

# Bindings: lowest layer first, so that a signature finds the types it names already registered.
function(gpukit_bindings result)
  set(bindings "")
  foreach(layer base driver memory runtime scheduler jit array ops io text models engine)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/gpukit/${layer}/*_py.cpp")
    list(SORT found)
    list(APPEND bindings ${found})
  endforeach()
  set(${result} ${bindings} PARENT_SCOPE)
endfunction()

# Writes `output`: a C++ file that defines gpukit::jit::embedded_files() over every kernel source.
function(gpukit_embed output)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/gpukit/*.cuh")
  list(SORT kernels)
  list(JOIN kernels "\n" lines)
  set(listing "${CMAKE_BINARY_DIR}/generated/kernel_files.txt")
  file(CONFIGURE OUTPUT "${listing}" CONTENT "${lines}\n" @ONLY)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" -DLISTING=${listing} -DROOT=${CMAKE_SOURCE_DIR} -DOUTPUT=${output}
            -P "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
    DEPENDS "${listing}" "${CMAKE_SOURCE_DIR}/cmake/embed.cmake" ${kernels}
    COMMENT "Embedding kernel sources"
    VERBATIM)
endfunction()

# Writes `output`: gpukit::bind_all(), which calls bind_<stem>() of every <stem>_py.cpp given.
function(gpukit_bind_all output)
  set(declarations "")
  set(calls "")
  foreach(file ${ARGN})
    get_filename_component(stem "${file}" NAME)
    string(REGEX REPLACE "_py\\.cpp$" "" stem "${stem}")
    string(APPEND declarations "void bind_${stem}(nanobind::module_& m);\n")
    string(APPEND calls "  bind_${stem}(m);\n")
  endforeach()
  file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT "// Generated from the names of the *_py.cpp files.
#include <nanobind/nanobind.h>

namespace gpukit {

@declarations@
void bind_all(nanobind::module_& m);

void bind_all([[maybe_unused]] nanobind::module_& m) {
@calls@}

}  // namespace gpukit
")
endfunction()

# Headers that compile outside of this tree: no bindings, no tests, and none from which an #include leads to a kernel
# source, which is not installed.
function(gpukit_public_headers result)
  file(GLOB_RECURSE left RELATIVE "${CMAKE_SOURCE_DIR}" CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/gpukit/*.h")
  list(FILTER left EXCLUDE REGEX "_(py|impl|test)\\.h$|^gpukit/python/")
  foreach(header ${left})
    file(STRINGS "${CMAKE_SOURCE_DIR}/${header}" lines REGEX "^#include \"")
    string(REGEX REPLACE "#include \"([^\"]+)\"" "\\1" included_${header} "${lines}")
  endforeach()
  set(changed ON)
  while(changed)
    set(changed OFF)
    foreach(header ${left})
      foreach(other ${included_${header}})
        if(NOT other IN_LIST left)
          list(REMOVE_ITEM left "${header}")
          set(changed ON)
          break()
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${result} ${left} PARENT_SCOPE)
endfunction()
