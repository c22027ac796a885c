// Events of an answer as the public API writes them.
#ifndef BASTION_ORCHESTRATOR_SERVE_GENERATION_EVENTS_H_
#define BASTION_ORCHESTRATOR_SERVE_GENERATION_EVENTS_H_

#include "orchestrator/serve/request_stream.h"
#include "protos/bastion/v1/generation.pb.h"

namespace bastion {

[[nodiscard]] v1::GenerateResponse DeltaEvent(const OutputDelta& delta,
                                              const v1::OutputOptions& wanted);
[[nodiscard]] v1::GenerateResponse FinishedEvent(const OutputEnd& end);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_GENERATION_EVENTS_H_
