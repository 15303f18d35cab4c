# Compile and link flags of our own targets; users of the installed library do not inherit them.
add_library(gpukit_flags INTERFACE)

# Results are IEEE: a product and a sum are fused only where the code says fma.
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options(gpukit_flags INTERFACE -Wall -Wextra -ffp-contract=off)
  # GCC 12 reports overlaps in its own std::string.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(gpukit_flags INTERFACE -Wno-restrict)
  endif()
  if(GPUKIT_WERROR)
    target_compile_options(gpukit_flags INTERFACE -Werror)
  endif()
elseif(MSVC)
  target_compile_options(gpukit_flags INTERFACE /W3 /fp:precise /utf-8)
endif()

if(GPUKIT_SANITIZE STREQUAL "address")
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(GPUKIT_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread)
elseif(NOT GPUKIT_SANITIZE STREQUAL "")
  message(FATAL_ERROR "GPUKIT_SANITIZE must be empty, address or thread, got ${GPUKIT_SANITIZE}")
endif()
if(sanitizers)
  target_compile_options(gpukit_flags INTERFACE ${sanitizers} -O1 -g1 -fno-omit-frame-pointer)
  target_link_options(gpukit_flags INTERFACE ${sanitizers})
endif()
