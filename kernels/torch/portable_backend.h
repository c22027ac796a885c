// The backend for processors that the kernels in kernels/cpu do not serve well. It needs libtorch,
// so a build has it only with BASTION_TORCH. One of two files is compiled: portable_backend.cc, or
// absent_portable_backend.cc in a build without libtorch. Thread-safe.
#ifndef BASTION_KERNELS_TORCH_PORTABLE_BACKEND_H_
#define BASTION_KERNELS_TORCH_PORTABLE_BACKEND_H_

#include "absl/status/statusor.h"
#include "kernels/backend/backend.h"

namespace bastion::kernels {

// INVALID_ARGUMENT in a build without libtorch; the message says how to get one with it.
[[nodiscard]] absl::StatusOr<const Backend*> PortableBackend();

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_TORCH_PORTABLE_BACKEND_H_
