#include "engine/program/flags.h"

#include <optional>

#include "absl/flags/flag.h"

ABSL_FLAG(
    std::string, weights, "",
    "Format of the weights: bf16, fp32 or int8; for a drafter also auto (int8 if this CPU has "
    "instructions for it, else bf16). A target's format can change the text; speculation and "
    "the drafter's format never do. Default: fp32 with --dtype fp32, else bf16.");
ABSL_FLAG(
    std::string, dtype, "",
    "Type of the activations, the KV cache and the features: bf16 or fp32. Default: fp32 with "
    "fp32 weights, else bf16.");
ABSL_FLAG(std::optional<int>, threads, std::nullopt,
          "Number of engine threads. 0: one per core. Default: 0; 2 in bastion-bench and "
          "bastion-verify-exactness.");

namespace bastion::nn {

FormatNames FormatFlags() { return {absl::GetFlag(FLAGS_weights), absl::GetFlag(FLAGS_dtype)}; }

int ThreadsFlag(int unset) { return absl::GetFlag(FLAGS_threads).value_or(unset); }

}  // namespace bastion::nn
