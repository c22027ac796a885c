# What kernels can be built on besides the CPU's own instructions. Both come from wheels of PyPI.
set(BASTION_VENV ${CMAKE_SOURCE_DIR}/build/venv CACHE PATH "Python environment with the wheels")
include(BastionTorch)
include(BastionCuda)
