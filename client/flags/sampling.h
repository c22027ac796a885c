// Parses sampling parameters from text and encodes them into a request. Thread-safe: no state.
#ifndef BASTION_CLIENT_FLAGS_SAMPLING_H_
#define BASTION_CLIENT_FLAGS_SAMPLING_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bastion/v1/generation.pb.h"
#include "common/stages/sampling_params.h"

namespace bastion {

// Parses e.g. "top_p=0.9,repetition_penalty=1.1". The names are top_k, top_p, min_p,
// repetition_penalty, presence_penalty and frequency_penalty; a parameter that `text` does not set
// keeps its default. temperature and seed are refused, because the programs have flags for them.
// Returns INVALID_ARGUMENT, with the part that cannot be parsed in the message. Does not check
// ranges; the server does.
[[nodiscard]] absl::StatusOr<SamplingParams> ParseSampling(absl::string_view text);

// Encodes all fields except the seed. The caller sets it, because only the caller knows whether 0
// is a seed or means "no seed".
void Encode(const SamplingParams& sampling, v1::SamplingParams& out);

}  // namespace bastion

#endif  // BASTION_CLIENT_FLAGS_SAMPLING_H_
