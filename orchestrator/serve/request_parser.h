// RequestParser: converts a GenerateRequest to a checked, tokenized request. A field that is out of
// range or not supported is an INVALID_ARGUMENT error that names the field; it is never ignored.
//
// Thread-safe: immutable.
#ifndef BASTION_ORCHESTRATOR_SERVE_REQUEST_PARSER_H_
#define BASTION_ORCHESTRATOR_SERVE_REQUEST_PARSER_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/serve/prepared_request.h"
#include "orchestrator/serve/served_model.h"
#include "protos/bastion/v1/generation.pb.h"

namespace bastion {

class RequestParser {
 public:
  // `model` must outlive this object. `default_policy` is for requests that do not set a policy.
  // `node_cap` limits the nodes of every draft tree, whatever the request says.
  RequestParser(const ServedModel* model, Policy default_policy, int node_cap)
      : model_(model), default_policy_(std::move(default_policy)), node_cap_(node_cap) {}

  // INVALID_ARGUMENT with the name of the field; NOT_FOUND for a model that is not served.
  [[nodiscard]] absl::StatusOr<PreparedRequest> Parse(const v1::GenerateRequest& request) const;

  [[nodiscard]] const Policy& default_policy() const { return default_policy_; }

 private:
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> ParsePrompt(
      const v1::GenerateRequest& request) const;
  [[nodiscard]] absl::StatusOr<SamplingParams> ParseSampling(
      const v1::SamplingParams& sampling) const;
  // Sets max_tokens and the stop conditions of `request`, whose prompt is already set.
  [[nodiscard]] absl::Status SetLimits(const v1::StopConditions& stop,
                                       DecodeRequest& request) const;
  // Sets the request's share of the server: its weight, its latency target and the limits of its
  // trees.
  [[nodiscard]] absl::Status SetShare(const v1::GenerateRequest& request,
                                      DecodeRequest& decode) const;
  [[nodiscard]] absl::StatusOr<Policy> ParsePolicy(const v1::SpeculationOptions& options) const;

  const ServedModel* const model_;
  const Policy default_policy_;
  const int node_cap_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_REQUEST_PARSER_H_
