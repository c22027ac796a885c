# Functions to define targets. Each folder is one target with explicit dependencies, so the link
# graph enforces the layering.
#
#   bastion_library(NAME common_stages SRCS draft_tree.cc DEPS common_base absl::status)
#   bastion_binary(NAME bastion-bench SRCS main.cc DEPS …)
#   bastion_test(NAME tree_best_first_test SRCS best_first_test.cc DEPS …)
#   bastion_benchmark(NAME tree_benchmark SRCS … DEPS …)
# The target generated_files makes the sources that programs make, without compiling anything.
add_custom_target(generated_files)
function(bastion_generates name)
  add_custom_target(${name}_files DEPENDS ${ARGN})
  add_dependencies(generated_files ${name}_files)
endfunction()

function(bastion_include_directories target)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
endfunction()

# With BASTION_UNITY, the compiler reads up to 12 sources of a target as one, and parses and instantiates
# what they share once.
function(bastion_build_options target)
  bastion_use_precompiled_header(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BASTION_UNITY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

function(bastion_common_options target)
  bastion_include_directories(${target})
  bastion_build_options(${target})
endfunction()

# PRECOMPILE: a header of the library's own that is precompiled instead of the common ones.
function(bastion_library)
  cmake_parse_arguments(ARG "" "NAME;PRECOMPILE" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${ARG_NAME} STATIC ${ARG_SRCS})
    bastion_include_directories(${ARG_NAME})
    if(ARG_PRECOMPILE)
      target_precompile_headers(${ARG_NAME} PRIVATE ${ARG_PRECOMPILE})
    else()
      bastion_build_options(${ARG_NAME})
    endif()
    target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS})
  else()
    add_library(${ARG_NAME} INTERFACE)
    target_include_directories(${ARG_NAME} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${ARG_NAME} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

function(bastion_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  bastion_common_options(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
endfunction()

# Sets `result` to whether tests/threaded_tests.txt has the test `name`.
function(_bastion_test_has_threads result name)
  set(list ${CMAKE_SOURCE_DIR}/tests/threaded_tests.txt)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} names)
  if(name IN_LIST names)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# Links the test programs of folders, when all tests are known.
function(_bastion_link_test_programs)
  get_property(programs GLOBAL PROPERTY BASTION_TEST_PROGRAMS)
  foreach(program ${programs})
    get_property(sources GLOBAL PROPERTY BASTION_TEST_SOURCES_OF_${program})
    get_property(deps GLOBAL PROPERTY BASTION_TEST_DEPS_OF_${program})
    list(REMOVE_DUPLICATES deps)
    _bastion_test_program(${program} "${sources}" "${deps}")
    bastion_use_precompiled_test_header(${program})
    target_compile_options(${program} PRIVATE ${BASTION_TEST_OPTIMIZE})
    set_target_properties(${program} PROPERTIES UNITY_BUILD ${BASTION_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  endforeach()
endfunction()

function(_bastion_test_program name sources deps)
  add_executable(${name} ${sources})
  bastion_include_directories(${name})
  target_link_libraries(${name} PRIVATE ${deps} test_main GTest::gmock)
  if(TARGET no_threads)
    target_link_libraries(${name} PRIVATE no_threads)
  endif()
  target_compile_definitions(${name} PRIVATE BASTION_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             BASTION_BINARY_DIR="${CMAKE_BINARY_DIR}"
                                             BASTION_SANITIZED=$<BOOL:${BASTION_SANITIZE}>)
endfunction()

# Adds a test. The tests of a folder are one program, DIRECTORY_tests: so the compiler parses and
# instantiates once what they share. ctest runs the tests of SRCS in a process of their own.
# A program of its own, named NAME, has:
#   ALONE      a test that needs other definitions or dependencies, or that replaces functions; with
#              BASTION_TESTS_ALONE, all tests of a folder;
#   OPTIMIZED  a test that measures what it includes: it is optimized like a library;
#   LABELS     a test of a job.
# Under the thread sanitizer, only tests with threads are built. no_threads stops the others, in other
# builds, if they start a thread.
function(bastion_test)
  cmake_parse_arguments(ARG "ALONE;OPTIMIZED" "NAME" "SRCS;DEPS;LABELS" ${ARGN})
  _bastion_test_has_threads(has_threads ${ARG_NAME})
  if(NOT has_threads AND BASTION_SANITIZE MATCHES "thread")
    return()
  endif()
  list(TRANSFORM ARG_SRCS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  if(ARG_ALONE OR ARG_OPTIMIZED OR ARG_LABELS OR BASTION_TESTS_ALONE)
    _bastion_test_program(${ARG_NAME} "${sources}" "${ARG_DEPS}")
    if(ARG_OPTIMIZED)
      bastion_use_precompiled_header(${ARG_NAME})
    else()
      bastion_use_precompiled_test_header(${ARG_NAME})
      target_compile_options(${ARG_NAME} PRIVATE ${BASTION_TEST_OPTIMIZE})
    endif()
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  else()
    list(TRANSFORM sources REPLACE "^${CMAKE_SOURCE_DIR}/" "" OUTPUT_VARIABLE paths)
    list(GET paths 0 path)
    string(REGEX REPLACE "^tests/(.*)/[^/]*$" "\\1" folder ${path})
    string(REPLACE "/" "_" program ${folder}_tests)
    get_property(programs GLOBAL PROPERTY BASTION_TEST_PROGRAMS)
    if(NOT programs)
      cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL _bastion_link_test_programs)
    endif()
    if(NOT program IN_LIST programs)
      set_property(GLOBAL APPEND PROPERTY BASTION_TEST_PROGRAMS ${program})
    endif()
    set_property(GLOBAL APPEND PROPERTY BASTION_TEST_SOURCES_OF_${program} ${sources})
    set_property(GLOBAL APPEND PROPERTY BASTION_TEST_DEPS_OF_${program} ${ARG_DEPS})
    list(JOIN paths "," paths)
    add_test(NAME ${ARG_NAME} COMMAND ${program} --source=${paths})
  endif()
  set(environment "")
  if(NOT has_threads)
    set(environment "BASTION_NO_THREADS=1;")
  endif()
  # Sanitizers slow the tests down.
  set(timeout 600)
  if(BASTION_SANITIZE)
    set(timeout 2400)
  endif()
  # The system's gRPC and Abseil and the Rust crates are not compiled for the thread sanitizer.
  set(symbolizer external_symbolizer_path=/usr/bin/llvm-symbolizer-19)
  set(tsan ${symbolizer}:ignore_noninstrumented_modules=1)
  string(APPEND tsan :suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp)
  string(APPEND environment "ASAN_OPTIONS=${symbolizer};UBSAN_OPTIONS=${symbolizer}:print_stacktrace=1;")
  string(APPEND environment "TSAN_OPTIONS=${tsan}")
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${timeout} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${environment}")
  foreach(label ${ARG_LABELS})
    bastion_job(${label} ${ARG_NAME})
  endforeach()
endfunction()

# Does nothing in sanitizer builds.
function(bastion_benchmark)
  if(BASTION_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  bastion_common_options(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} benchmark::benchmark_main)
  target_compile_definitions(${ARG_NAME} PRIVATE BASTION_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endfunction()
