# Precompiled headers for the targets of a sanitizer build. These builds spend most of their time parsing
# the same library headers. Other builds do not use them, so that they report a missing #include.
#
#   bastion_use_precompiled_header(TARGET)
#   bastion_use_precompiled_test_header(TARGET)   for a target that is compiled with BASTION_TEST_OPTIMIZE
if(NOT BASTION_SANITIZE)
  function(bastion_use_precompiled_header target)
  endfunction()
  function(bastion_use_precompiled_test_header target)
  endfunction()
  return()
endif()

# Libraries and executables share a header, so both must be compiled with the same flag.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
# Without time stamps in the header, ccache recognizes it in another build folder.
add_compile_options("SHELL:-Xclang -fno-pch-timestamp")

file(CONFIGURE OUTPUT generated/precompiled_header.cc CONTENT "// A library needs a source.\n")
function(_bastion_precompiled_header name)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/generated/precompiled_header.cc)
  target_link_libraries(${name}
    PRIVATE bastion::grpc absl::flat_hash_map absl::flags absl::statusor absl::str_format absl::time)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <fstream>
    <functional> <iostream> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set>
    <sstream> <string> <thread> <utility> <vector>
    <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/flags/flag.h>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
    <absl/synchronization/mutex.h> <absl/time/clock.h> <absl/types/span.h>
    <grpcpp/grpcpp.h>)
  if(BASTION_TESTS)
    target_link_libraries(${name} PRIVATE GTest::gmock)
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endfunction()

_bastion_precompiled_header(bastion_precompiled_header)
function(bastion_use_precompiled_header target)
  target_precompile_headers(${target} REUSE_FROM bastion_precompiled_header)
endfunction()

if(BASTION_TESTS)
  _bastion_precompiled_header(bastion_precompiled_test_header)
  target_compile_options(bastion_precompiled_test_header PRIVATE ${BASTION_TEST_OPTIMIZE})
endif()
function(bastion_use_precompiled_test_header target)
  target_precompile_headers(${target} REUSE_FROM bastion_precompiled_test_header)
endfunction()
