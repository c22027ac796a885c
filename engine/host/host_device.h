// HostDevice: models run on the CPU, with the kernels of a backend: the project's own (kernels/cpu)
// or those of libtorch (kernels/torch). Every operation takes effect at once.
#ifndef BASTION_ENGINE_HOST_HOST_DEVICE_H_
#define BASTION_ENGINE_HOST_HOST_DEVICE_H_

#include <memory>

#include "engine/model/device.h"

namespace bastion::nn {

// The backend and the pool must outlive the device. Engines that run one at a time may share it.
[[nodiscard]] std::shared_ptr<Device> MakeHostDevice(const kernels::Backend& backend,
                                                     kernels::ThreadPool& pool);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_HOST_HOST_DEVICE_H_
