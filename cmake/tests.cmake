# One GoogleTest executable over every *_test.cpp.
enable_testing()
find_package(GTest QUIET)
if(NOT GTest_FOUND)
  include(FetchContent)
  set(INSTALL_GTEST OFF)
  FetchContent_Declare(googletest URL https://github.com/google/googletest/archive/refs/tags/v1.17.0.tar.gz
                       DOWNLOAD_EXTRACT_TIMESTAMP ON)
  FetchContent_MakeAvailable(googletest)
endif()

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/gpukit/*_test.cpp"
     "${CMAKE_SOURCE_DIR}/tests/support/*.cpp")
add_executable(gpukit_tests ${test_sources})
target_link_libraries(gpukit_tests PRIVATE gpukit_flags "$<LINK_LIBRARY:WHOLE_ARCHIVE,gpukit>" GTest::gtest_main)
# Tests are compiled often and run once.
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options(gpukit_tests PRIVATE -O1)
endif()
add_test(NAME gpukit_tests COMMAND gpukit_tests)
