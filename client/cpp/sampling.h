// Sampling parameters as clients write them, and into a request.
#ifndef BASTION_CLIENT_CPP_SAMPLING_H_
#define BASTION_CLIENT_CPP_SAMPLING_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/stages/sampling_params.h"
#include "protos/bastion/v1/generation.pb.h"

namespace bastion {

// "top_p=0.9,repetition_penalty=1.1": any of temperature, seed, top_k, top_p, min_p,
// repetition_penalty, presence_penalty, frequency_penalty; what is left out stays off.
// INVALID_ARGUMENT naming what cannot be read; whether values are in range is for the server to
// say.
[[nodiscard]] absl::StatusOr<SamplingParams> ParseSampling(absl::string_view written);

// All but the seed: 0 is a seed to some, and none to others.
void Encode(const SamplingParams& sampling, v1::SamplingParams& out);

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_SAMPLING_H_
