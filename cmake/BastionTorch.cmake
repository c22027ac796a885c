# libtorch from the PyPI wheel that deploy/local/setup.sh installs into build/venv.
#
# Programs link only torch_cpu and c10, because libtorch.so depends on CUDA. The wheel contains old
# google/protobuf headers, so its include folders come last (-idirafter), and no file may include
# both torch and a generated proto. libtorch_cpu needs libcudart and libcupti; setup.sh installs
# them too.
set(BASTION_VENV ${CMAKE_SOURCE_DIR}/build/venv CACHE PATH "Environment with the torch wheel")
file(GLOB BASTION_SITE_PACKAGES ${BASTION_VENV}/lib/python3*/site-packages)
if(NOT EXISTS "${BASTION_SITE_PACKAGES}/torch/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no torch wheel under ${BASTION_VENV}: run deploy/local/setup.sh first")
endif()
set(TORCH_DIR ${BASTION_SITE_PACKAGES}/torch)
file(GLOB NVIDIA_LIB_DIRS ${BASTION_SITE_PACKAGES}/nvidia/*/lib)

add_library(bastion_torch INTERFACE)
target_compile_options(bastion_torch INTERFACE "SHELL:-idirafter ${TORCH_DIR}/include"
                                               "SHELL:-idirafter ${TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(bastion_torch INTERFACE ${TORCH_DIR}/lib/libtorch_cpu.so
                                              ${TORCH_DIR}/lib/libc10.so)
set(BASTION_TORCH_RPATH ${TORCH_DIR}/lib ${NVIDIA_LIB_DIRS})
list(JOIN BASTION_TORCH_RPATH ":" rpath)
target_link_options(bastion_torch INTERFACE -Wl,-rpath,${rpath} -Wl,--disable-new-dtags
                                            -Wl,--allow-shlib-undefined)

# Precompile Torch's headers: this reduces compilation from 25 s to 3 s per file.
file(WRITE ${CMAKE_BINARY_DIR}/torch_pch/pch.cc "")
add_library(bastion_torch_pch OBJECT ${CMAKE_BINARY_DIR}/torch_pch/pch.cc)
target_link_libraries(bastion_torch_pch PUBLIC bastion_torch)
target_precompile_headers(bastion_torch_pch PRIVATE <ATen/ATen.h>)
set_target_properties(bastion_torch_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_compile_options(bastion_torch_pch PRIVATE -fPIC -fpch-preprocess)

function(bastion_use_torch target)
  # The precompiled header is compiled with -fPIC, so its users must be too; CMake would compile
  # programs with -fPIE.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PUBLIC bastion_torch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM bastion_torch_pch)
endfunction()
