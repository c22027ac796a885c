// Converts timelines to the Chrome trace format, which Perfetto (ui.perfetto.dev) and
// chrome://tracing show. Thread-safe: no state.
#ifndef BASTION_CLIENT_CTL_CHROME_TRACE_H_
#define BASTION_CLIENT_CTL_CHROME_TRACE_H_

#include <string>

#include "bastion/v1/inspection.pb.h"

namespace bastion {

// JSON with a process per service and a thread per lane. Times are those of the orchestrator's
// clock, in microseconds. The name of a service whose clock had to be estimated states the error.
[[nodiscard]] std::string ChromeTrace(const v1::GetTimelineResponse& timelines);

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_CHROME_TRACE_H_
