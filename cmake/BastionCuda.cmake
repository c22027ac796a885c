# CUDA from the PyPI wheels that deploy/local/setup.sh --cuda installs into build/venv.
#
#   bastion_cuda_library(NAME kernels_cuda SRCS linear.cu stream.cc DEPS … [OPTIONS …])
#
# CMake's CUDA language does not support the layout of the wheels, so a custom command compiles each
# .cu file. ptxas's report on registers and spills is stored next to the object as SOURCE.cu.log.
# OPTIONS are options for nvcc. Programs link libcudart and libcublasLt, but not libcuda, so they
# also start on machines without a GPU driver.
option(BASTION_WITH_CUDA "Build the kernels and engines for NVIDIA GPUs" OFF)

if(NOT BASTION_WITH_CUDA)
  return()
endif()
if(BASTION_SANITIZE)
  message(FATAL_ERROR "BASTION_WITH_CUDA and BASTION_SANITIZE cannot be combined: unset one")
endif()
add_custom_target(cuda_job)

file(GLOB CUDA_DIR ${BASTION_VENV}/lib/python3*/site-packages/nvidia/cu13)
foreach(file bin/nvcc bin/cuobjdump bin/nvdisasm nvvm/bin/cicc include/crt/host_runtime.h include/cccl/nv/target
             include/cublasLt.h lib/libcublasLt.so.13 lib/libcudart.so.13)
  if(NOT EXISTS "${CUDA_DIR}/${file}")
    message(FATAL_ERROR "no nvidia/cu13/${file} under ${BASTION_VENV}: "
                        "run deploy/local/setup.sh --cuda first")
  endif()
endforeach()

# ccache must hash the source files, not the preprocessed text. nvcc preprocesses a file once for
# each GPU architecture, but ccache would see only one result and could return a stale object.
set(NVCC ${CUDA_DIR}/bin/nvcc)
set(NVCC_LAUNCHER)
if(CCACHE_PROGRAM)
  set(NVCC_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 ${CCACHE_PROGRAM})
endif()

# Machine code for A100, and for H100 and H200 with the instructions that only they have; PTX that the
# driver translates for newer GPUs.
set(BASTION_CUDA_CODE "arch=compute_80,code=sm_80" "arch=compute_90a,code=sm_90a"
    "arch=compute_90,code=compute_90" CACHE STRING "Values of nvcc's --generate-code")
set(NVCC_FLAGS -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 --compress-mode=size
    -I${CMAKE_SOURCE_DIR} -Xptxas -v -Werror all-warnings
    -Xcompiler -fPIC,-Wall,-Wextra,-Werror,-fno-math-errno,-ffp-contract=off)
foreach(option ${BASTION_GCC_OPTIONS})
  list(APPEND NVCC_FLAGS -Xcompiler ${option})
endforeach()
foreach(code ${BASTION_CUDA_CODE})
  list(APPEND NVCC_FLAGS --generate-code ${code})
endforeach()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  list(APPEND NVCC_FLAGS -DNDEBUG)
endif()

add_library(bastion_cuda INTERFACE)
target_include_directories(bastion_cuda SYSTEM INTERFACE ${CUDA_DIR}/include
                                                         ${CUDA_DIR}/include/cccl)
target_link_libraries(bastion_cuda INTERFACE ${CUDA_DIR}/lib/libcudart.so.13
                                             ${CUDA_DIR}/lib/libcublasLt.so.13)
target_link_options(bastion_cuda INTERFACE -Wl,--allow-shlib-undefined)

# CMake makes programs search the folder of the wheels. They also search $ORIGIN/lib, where tests/gpu/pack.sh
# copies the libraries for another machine; installed programs search lib/bastion beside bin.
# An RPATH, unlike a RUNPATH, applies to the dependencies of libraries too. Unused sections are
# removed to keep the archive small; unused Rust code would be a third of each program.
set(CMAKE_BUILD_RPATH "$ORIGIN/lib")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/bastion")
add_link_options(-Wl,--disable-new-dtags -Wl,--gc-sections)

# Adds a command that compiles the .cu file `source`. Sets `result` to the object file.
function(_bastion_cuda_object result source options)
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE name)
  set(stem ${CMAKE_CURRENT_BINARY_DIR}/${name})
  cmake_path(GET stem PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${stem}.o
    BYPRODUCTS ${stem}.log
    COMMAND ${CMAKE_SOURCE_DIR}/cmake/nvcc.sh ${stem}.log
            ${NVCC_LAUNCHER} ${NVCC} ${NVCC_FLAGS} ${options}
            -MD -MF ${stem}.d -MT ${stem}.o -c ${source} -o ${stem}.o
    DEPENDS ${source} ${CMAKE_SOURCE_DIR}/cmake/nvcc.sh ${NVCC}
    DEPFILE ${stem}.d
    COMMENT "Compiling ${name} with nvcc"
    VERBATIM)
  set(${result} ${stem}.o PARENT_SCOPE)
endfunction()

function(bastion_cuda_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;OPTIONS" ${ARGN})
  set(files)
  foreach(source ${ARG_SRCS})
    if(source MATCHES "\\.cu$")
      _bastion_cuda_object(source ${source} "${ARG_OPTIONS}")
    endif()
    list(APPEND files ${source})
  endforeach()
  add_library(${ARG_NAME} STATIC ${files})
  set_target_properties(${ARG_NAME} PROPERTIES LINKER_LANGUAGE CXX)
  bastion_common_options(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS} bastion_cuda)
  bastion_job(cuda ${ARG_NAME})
endfunction()
