// PreparedRequest: a request that passed every check of RequestParser. Plain data.
#ifndef BASTION_ORCHESTRATOR_SERVE_PREPARED_REQUEST_H_
#define BASTION_ORCHESTRATOR_SERVE_PREPARED_REQUEST_H_

#include <string>

#include "orchestrator/cycle/sequence.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/text/stop_strings.h"

namespace bastion {

struct PreparedRequest {
  std::string request_id;  // Empty: the service generates one.
  DecodeRequest decode;    // The scheduler sets its id.
  Policy policy;
  StopStrings stops;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_PREPARED_REQUEST_H_
