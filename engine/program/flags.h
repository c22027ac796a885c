// The flags of engines, written once for every program that runs one. Link engine_flags for
// --weights, --dtype and --threads, and engine_device_flags for --device, --backend, --gpu, --gemm
// and --gemm_table too. Call these functions after the flags are parsed.
#ifndef BASTION_ENGINE_PROGRAM_FLAGS_H_
#define BASTION_ENGINE_PROGRAM_FLAGS_H_

#include "common/base/command_line.h"
#include "engine/program/format_names.h"
#include "engine/program/local_device.h"

namespace bastion::nn {

// Help for --drafter_weights, in programs that run both models.
inline constexpr char kDrafterWeightsHelp[] =
    "Format of the drafter's weights: bf16, fp32, int8, or auto (int8 if this CPU has instructions "
    "for it, else bf16). Its activations are fp32 with fp32 weights, else bf16. Empty: the same "
    "formats as the target.";

// --weights and --dtype.
[[nodiscard]] FormatNames FormatFlags();
// --threads, or `unset` without this flag.
[[nodiscard]] int ThreadsFlag(int unset = 0);
// --device, --backend, --gpu, --gemm, --gemm_table and --threads.
[[nodiscard]] DeviceChoice DeviceFlags(int unset_threads = 0);

// The same flags in --help.
[[nodiscard]] inline FlagGroup DeviceFlagGroup() {
  return {
      "Device",
      {"device KIND", "backend NAME", "threads N", "gpu INDEX", "gemm KIND", "gemm_table FILE"}};
}

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_PROGRAM_FLAGS_H_
