// The device's peaks, measured at startup with the engine's own kernels.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_DEVICE_PROBE_H_
#define BASTION_VERIFIER_SERVICE_MODEL_DEVICE_PROBE_H_

#include <string>

#include "common/base/dtype.h"
#include "common/stages/stage_data.h"
#include "engine/model/device.h"

namespace bastion::verifier {

// The read bandwidth, and the FLOP rate of products with weights of `dtype`
// (kernels/ops/probe.h). Takes less than 0.1 s.
[[nodiscard]] DevicePeaks MeasurePeaks(const nn::Device& device, DType dtype);

// A description for logs: the CPU model, the number of threads, and the instruction set or library.
[[nodiscard]] std::string DescribeDevice(const nn::Device& device);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_DEVICE_PROBE_H_
