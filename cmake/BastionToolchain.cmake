# Language standard, warnings, sanitizers, ccache and lld for all targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(BASTION_OPTIMIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "${BASTION_OPTIMIZE} -g1")
endif()
add_compile_options(-Wall -Wextra -Werror -fno-math-errno -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12 calls its own deprecated functions. Clang reports this where templates of <algorithm>
  # are instantiated.
  add_compile_options(-Wthread-safety -Wno-deprecated-declarations -Wno-missing-braces)
else()
  # GCC otherwise puts code that is rarely reached into functions of their own, and some of these are empty.
  # For two functions at one address, lld keeps the unwind information of one. Where that is the empty
  # one's, an exception in the other ends the process.
  set(BASTION_GCC_OPTIONS -fno-reorder-blocks-and-partition)
  add_compile_options(${BASTION_GCC_OPTIONS})
endif()
# For the sources of most tests, not for what they test. Compilers take most of their time to optimize the
# checks of GoogleTest and of the sanitizers.
set(BASTION_TEST_OPTIMIZE -O0)
if(BASTION_SANITIZE)
  add_compile_options(-fsanitize=${BASTION_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${BASTION_SANITIZE})
  if(BASTION_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Ignore time stamps of included files: a precompiled header has the same contents but another
  # time stamp in every build folder. Hash paths relative to the build folder, and not its name, so that
  # the presets share what they compile with the same flags.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_INODECACHE=1
      ${CCACHE_PROGRAM})
endif()
find_program(LLD_PROGRAM NAMES ld.lld ld.lld-14)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

include(BastionGrpc)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(Boost 1.81 REQUIRED)
find_package(opentelemetry-cpp REQUIRED)
find_package(OpenSSL REQUIRED)
if(BASTION_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
