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

# Under the thread sanitizer, a test without threads is built only on request. no_threads stops such a
# test if it starts a thread. OPTIMIZED: the test measures what it includes, so it is optimized like a library.
function(bastion_test)
  cmake_parse_arguments(ARG "OPTIMIZED" "NAME" "SRCS;DEPS;LABELS" ${ARGN})
  _bastion_test_has_threads(has_threads ${ARG_NAME})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  bastion_include_directories(${ARG_NAME})
  if(ARG_OPTIMIZED)
    bastion_use_precompiled_header(${ARG_NAME})
  else()
    bastion_use_precompiled_test_header(${ARG_NAME})
    target_compile_options(${ARG_NAME} PRIVATE ${BASTION_TEST_OPTIMIZE})
  endif()
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${ARG_NAME} PRIVATE BASTION_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                                 BASTION_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(NOT has_threads AND BASTION_SANITIZE MATCHES "thread")
    set_target_properties(${ARG_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  elseif(NOT has_threads AND TARGET no_threads)
    target_link_libraries(${ARG_NAME} PRIVATE no_threads)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  # Sanitizers slow the tests down.
  set(timeout 600)
  if(BASTION_SANITIZE)
    set(timeout 2400)
  endif()
  # The system's gRPC and Abseil and the Rust crates are not compiled for the thread sanitizer.
  set(symbolizer external_symbolizer_path=/usr/bin/llvm-symbolizer-19)
  set(tsan ${symbolizer}:ignore_noninstrumented_modules=1)
  string(APPEND tsan :suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp)
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${timeout} LABELS "${ARG_LABELS}" ENVIRONMENT
    "ASAN_OPTIONS=${symbolizer};UBSAN_OPTIONS=${symbolizer}:print_stacktrace=1;TSAN_OPTIONS=${tsan}")
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
