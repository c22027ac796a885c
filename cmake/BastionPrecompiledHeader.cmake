# One precompiled header for every target of a sanitizer build. These builds spend most of their time
# parsing the same library headers. Other builds do not use it, so that they report a missing
# #include.
#
#   bastion_use_precompiled_header(TARGET)
if(NOT BASTION_SANITIZE)
  function(bastion_use_precompiled_header target)
  endfunction()
  return()
endif()

# Libraries and executables share the header, so both must be compiled with the same flag.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
# Without time stamps in the header, ccache recognizes it in another build folder.
add_compile_options("SHELL:-Xclang -fno-pch-timestamp")

file(CONFIGURE OUTPUT generated/precompiled_header.cc CONTENT "// A library needs a source.\n")
add_library(bastion_precompiled_header OBJECT ${CMAKE_BINARY_DIR}/generated/precompiled_header.cc)
target_link_libraries(bastion_precompiled_header
  PRIVATE PkgConfig::GRPCPP absl::flat_hash_map absl::flags absl::statusor absl::str_format absl::time)
target_precompile_headers(bastion_precompiled_header PRIVATE
  <algorithm> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <fstream>
  <functional> <iostream> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set>
  <sstream> <string> <thread> <utility> <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/flags/flag.h>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/synchronization/mutex.h> <absl/time/clock.h> <absl/types/span.h>
  <grpcpp/grpcpp.h>)
if(BASTION_TESTS)
  target_link_libraries(bastion_precompiled_header PRIVATE GTest::gmock)
  target_precompile_headers(bastion_precompiled_header PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()

function(bastion_use_precompiled_header target)
  target_precompile_headers(${target} REUSE_FROM bastion_precompiled_header)
endfunction()
