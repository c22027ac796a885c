// Includes ATen and removes its logging macros, because the project defines its own LOG and CHECK
// (common/base/check.h). Include this file before check.h. Do not include ATen anywhere else.
#ifndef BASTION_KERNELS_TORCH_TORCH_H_
#define BASTION_KERNELS_TORCH_TORCH_H_

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cpu/Utils.h>
#include <torch/headeronly/version.h>

#undef LOG
#undef CHECK
#undef CHECK_EQ
#undef CHECK_GE
#undef CHECK_GT
#undef CHECK_LE
#undef CHECK_LT
#undef CHECK_NE
#undef DCHECK

#endif  // BASTION_KERNELS_TORCH_TORCH_H_
