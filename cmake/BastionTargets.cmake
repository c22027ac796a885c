# Functions to define targets. Each folder is one target with explicit dependencies, so the link
# graph enforces the layering.
#
#   bastion_library(NAME common_stages SRCS draft_tree.cc DEPS common_base absl::status)
#   bastion_binary(NAME bastion-bench SRCS main.cc DEPS …)
#   bastion_test(NAME tree_best_first_test SRCS best_first_test.cc DEPS …)
#   bastion_benchmark(NAME tree_benchmark SRCS … DEPS …)
function(bastion_common_options target)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
endfunction()

function(bastion_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${ARG_NAME} STATIC ${ARG_SRCS})
    bastion_common_options(${ARG_NAME})
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

function(bastion_test)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  bastion_common_options(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${ARG_NAME} PRIVATE BASTION_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                                 BASTION_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  # Sanitizers slow the tests down.
  set(timeout 600)
  if(BASTION_SANITIZE)
    set(timeout 2400)
  endif()
  # The system's gRPC and Abseil and the Rust crates are not compiled for the thread sanitizer.
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${timeout} LABELS "${ARG_LABELS}" ENVIRONMENT
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
  if("cuda" IN_LIST ARG_LABELS)
    bastion_cuda_job(${ARG_NAME})
  endif()
endfunction()

function(bastion_benchmark)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  bastion_common_options(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} benchmark::benchmark_main)
  target_compile_definitions(${ARG_NAME} PRIVATE BASTION_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endfunction()
