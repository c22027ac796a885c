// The backend for processors on which the kernels in kernels/cpu are slow. It needs libtorch, so
// only builds with BASTION_TORCH have it. A build compiles one of two files: portable_backend.cc,
// or absent_portable_backend.cc in a build without libtorch. Thread-safe.
#ifndef BASTION_KERNELS_TORCH_PORTABLE_BACKEND_H_
#define BASTION_KERNELS_TORCH_PORTABLE_BACKEND_H_

#include "absl/status/statusor.h"
#include "kernels/ops/backend.h"

namespace bastion::kernels {

// INVALID_ARGUMENT in a build without libtorch; the message says how to get one with it.
[[nodiscard]] absl::StatusOr<const Backend*> PortableBackend();

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_TORCH_PORTABLE_BACKEND_H_
