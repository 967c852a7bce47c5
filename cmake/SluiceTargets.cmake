# How every target of the tree is declared. A folder's CMakeLists.txt lists its files; flags and
# the form of a library, a test and a benchmark are said here once.

include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

find_package(Threads REQUIRED)

add_library(sluice_flags INTERFACE)
target_compile_options(sluice_flags INTERFACE
  -Wall -Wextra -Wconversion -Werror -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 sees overlapping copies inside std::string's operator+ at -O3 (its bug 105651).
  target_compile_options(sluice_flags INTERFACE $<$<CONFIG:Release>:-Wno-restrict>)
endif()
target_include_directories(sluice_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(SLUICE_SANITIZE)
  target_compile_options(sluice_flags INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(sluice_flags INTERFACE -Wthread-safety)
endif()
if(SLUICE_FUZZ)
  target_compile_options(sluice_flags INTERFACE -fsanitize=fuzzer-no-link,address)
  target_link_options(sluice_flags INTERFACE -fsanitize=address)
endif()

# sluice_library(planner SOURCES a.cc HEADERS a.h DEPENDS sluice::base PRIVATE_DEPENDS x)
# makes the target sluice_planner and its alias sluice::planner. Each header compiles alone.
function(sluice_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(sluice_${name} STATIC ${ARG_SOURCES})
  add_library(sluice::${name} ALIAS sluice_${name})
  target_sources(sluice_${name} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  set_target_properties(sluice_${name} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ON LINKER_LANGUAGE CXX)
  target_link_libraries(sluice_${name}
    PUBLIC sluice_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
endfunction()

# What nearly every test includes, compiled once. Not in `dev`, whose build shows what a test has
# forgotten to include. Everything that uses them is compiled with -pthread, as the libraries of
# some tests ask for: the compiler takes them only where both sides have the same macros. Where they
# differ all the same (OpenMP), it reads the headers themselves.
set(CMAKE_PCH_WARN_INVALID OFF)
if(SLUICE_PRECOMPILE)
  add_library(sluice_test_headers OBJECT ${PROJECT_SOURCE_DIR}/cmake/test_headers.cc)
  target_link_libraries(sluice_test_headers PRIVATE sluice_flags GTest::gmock)
  target_compile_options(sluice_test_headers PRIVATE -pthread)
  target_precompile_headers(sluice_test_headers PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> <filesystem> <functional> <optional> <random> <span> <variant>
    <absl/status/statusor.h> <absl/strings/str_format.h>)
endif()

# sluice_test(planner_test SOURCES a_test.cc DEPENDS sluice::planner LABELS unit)
# One program, one ctest entry. Labels: unit, sim, property, golden, e2e, gpu, slow.
function(sluice_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  if(SLUICE_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM sluice_test_headers)
    target_compile_options(${name} PRIVATE -pthread)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "SLUICE_SHARED=${PROJECT_SOURCE_DIR}/../shared;OMP_WAIT_POLICY=passive")
endfunction()

# sluice_benchmark(planner_benchmark SOURCES a_benchmark.cc DEPENDS sluice::planner)
# ctest runs it for an instant so that it does not rot; figures come from running it by hand.
function(sluice_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_DEPENDS} benchmark::benchmark_main)
  add_test(NAME ${name} COMMAND ${name} --benchmark_min_time=0.001)
  set_tests_properties(${name} PROPERTIES LABELS benchmark TIMEOUT 300
    ENVIRONMENT "OMP_WAIT_POLICY=passive")
endfunction()

# sluice_fuzz_target(x_fuzz SOURCES x_fuzz.cc DEPENDS ... CORPUS dir)
# With SLUICE_FUZZ a libFuzzer program; always a ctest that replays the corpus in git.
function(sluice_fuzz_target name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_DEPENDS})
  if(SLUICE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=0 ${ARG_CORPUS})
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_corpus.cc)
    add_test(NAME ${name} COMMAND ${name} ${ARG_CORPUS})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()
