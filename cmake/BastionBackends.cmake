# Optional backends of the kernels: libtorch and CUDA. Both come from PyPI wheels.
#
#   bastion_job(NAME TARGET…)   # Adds targets to NAME_job (torch_job or cuda_job), the target that
#                               # builds everything for that backend. No effect without the backend.
set(BASTION_VENV ${CMAKE_SOURCE_DIR}/build/venv CACHE PATH "Python environment with the wheels")
function(bastion_job name)
  if(TARGET ${name}_job)
    add_dependencies(${name}_job ${ARGN})
  endif()
endfunction()

include(BastionTorch)
include(BastionCuda)
