# Precompiled headers, with BASTION_UNITY. A build spends most of its time parsing the same library headers.
#
#   bastion_use_precompiled_header(TARGET)
#   bastion_use_precompiled_test_header(TARGET)   for a target that is compiled with BASTION_TEST_OPTIMIZE
if(NOT BASTION_UNITY)
  function(bastion_use_precompiled_header target)
  endfunction()
  function(bastion_use_precompiled_test_header target)
  endfunction()
  return()
endif()

# Libraries and executables share a header, so both must be compiled with the same flag.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
# With these, ccache recognizes the header in another build folder.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
else()
  add_compile_options(-fpch-preprocess)
  # GCC takes a header only where the same macros are defined. Targets that use gRPC define this one.
  add_compile_definitions(NOMINMAX)
  # A unity source includes sources. GCC warns of their unnamed namespaces as if they were in a header
  # (subobject-linkage). The other warnings are false alarms in the system's headers.
  add_compile_options(-Wno-subobject-linkage -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()

file(CONFIGURE OUTPUT generated/precompiled_header.cc CONTENT "// A library needs a source.\n")
function(_bastion_precompiled_header name)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/generated/precompiled_header.cc)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <fstream>
    <functional> <iostream> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set>
    <sstream> <string> <thread> <utility> <vector>
    <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/flags/flag.h>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
    <absl/synchronization/mutex.h> <absl/time/clock.h> <absl/types/span.h>
    <grpcpp/grpcpp.h>)
endfunction()

_bastion_precompiled_header(bastion_precompiled_header)
function(bastion_use_precompiled_header target)
  target_precompile_headers(${target} REUSE_FROM bastion_precompiled_header)
endfunction()

if(BASTION_TESTS)
  _bastion_precompiled_header(bastion_precompiled_test_header)
  target_link_libraries(bastion_precompiled_test_header PRIVATE GTest::gmock)
  target_precompile_headers(bastion_precompiled_test_header PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  target_compile_options(bastion_precompiled_test_header PRIVATE ${BASTION_TEST_OPTIMIZE})
endif()
function(bastion_use_precompiled_test_header target)
  target_precompile_headers(${target} REUSE_FROM bastion_precompiled_test_header)
endfunction()
