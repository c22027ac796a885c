#include "engine/model/device.h"

#include "common/base/status.h"

namespace bastion::nn {

absl::StatusOr<Device::Mirrored> Device::AllocateMirrored(size_t bytes, const char* what) {
  Mirrored memory;
  ASSIGN_OR_RETURN(memory.host, AllocateOnHost(bytes, what));
  memory.device = memory.host;
  if (on_host()) return memory;
  ASSIGN_OR_RETURN(memory.device, Allocate(bytes, what));
  return memory;
}

}  // namespace bastion::nn
