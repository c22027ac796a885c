// Converts the events of an answer to messages of the public API.
#ifndef BASTION_ORCHESTRATOR_API_GENERATION_EVENTS_H_
#define BASTION_ORCHESTRATOR_API_GENERATION_EVENTS_H_

#include "bastion/v1/generation.pb.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/schedule/request_stream.h"

namespace bastion {

// A Delta with the fields of `delta` that `wanted` requests. `tokenizer` is for the texts of trees.
[[nodiscard]] v1::GenerateResponse DeltaEvent(const OutputDelta& delta,
                                              const v1::OutputOptions& wanted,
                                              const hub::Tokenizer& tokenizer);
// The Finished event of an answer, with the fields that `wanted` requests.
[[nodiscard]] v1::GenerateResponse FinishedEvent(int answer, const OutputEnd& end,
                                                 const v1::OutputOptions& wanted);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_API_GENERATION_EVENTS_H_
