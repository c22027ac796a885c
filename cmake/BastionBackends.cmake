# Optional backends of the kernels: libtorch and CUDA. Both come from PyPI wheels.
set(BASTION_VENV ${CMAKE_SOURCE_DIR}/build/venv CACHE PATH "Python environment with the wheels")
include(BastionTorch)
include(BastionCuda)
