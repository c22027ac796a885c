# libtorch from the PyPI wheel that deploy/local/setup.sh --torch installs into build/venv.
# BASTION_PORTABLE_KERNELS names the folder under kernels/ that has the portable backend. Without
# libtorch, its CMakeLists.txt builds a stub that returns an error and says how to build the backend.
option(BASTION_TORCH "Build the portable backend and its tests. Needs libtorch" OFF)
set(BASTION_PORTABLE_KERNELS torch)

if(NOT BASTION_TORCH)
  return()
endif()
add_custom_target(torch_job)
# The programs with a --backend flag.
bastion_job(torch bastion-verifier bastion-drafter bastion-bench bastion-verify-exactness)

file(GLOB site_packages ${BASTION_VENV}/lib/python3*/site-packages)
set(TORCH_DIR ${site_packages}/torch)
if(NOT EXISTS "${TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no libtorch under ${BASTION_VENV}: run deploy/local/setup.sh --torch first")
endif()
file(GLOB nvidia_dirs ${site_packages}/nvidia/*/lib)

# Link only torch_cpu and c10: libtorch.so would need all of CUDA. libtorch_cpu.so itself needs
# libcudart and libcupti, whose wheels setup.sh also installs. The torch wheel contains old
# google/protobuf headers, so its include folders come last (-idirafter). Link this library PRIVATE,
# so that no other target searches these folders.
add_library(bastion_torch INTERFACE)
target_compile_options(bastion_torch INTERFACE "SHELL:-idirafter ${TORCH_DIR}/include")
target_link_libraries(bastion_torch INTERFACE ${TORCH_DIR}/lib/libtorch_cpu.so
                                              ${TORCH_DIR}/lib/libc10.so)
list(JOIN nvidia_dirs ":" nvidia_path)
target_link_options(bastion_torch INTERFACE -Wl,-rpath,${TORCH_DIR}/lib:${nvidia_path}
                                            -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined)
