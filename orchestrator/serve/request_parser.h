// From a GenerateRequest to a checked, tokenized request. Nothing a client can send gets past it:
// fields out of range or not supported are INVALID_ARGUMENT and named, never ignored.
//
// Thread-safe: immutable.
#ifndef BASTION_ORCHESTRATOR_SERVE_REQUEST_PARSER_H_
#define BASTION_ORCHESTRATOR_SERVE_REQUEST_PARSER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/chat_template.h"
#include "common/hub/model_config.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/serve/live_request.h"
#include "protos/bastion/v1/generation.pb.h"

namespace bastion {

// What the orchestrator reads of the target's folder: everything but its weights.
struct ServedModel {
  std::string name;  // The folder's.
  hub::ModelConfig config;
  hub::Tokenizer tokenizer;
  std::optional<hub::ChatTemplate> chat_template;

  // Errors name the file.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ServedModel>> Load(const std::string& folder);
};

class RequestParser {
 public:
  // `model` must outlive it.
  RequestParser(const ServedModel* model, Policy default_policy)
      : model_(model), default_policy_(std::move(default_policy)) {}

  // INVALID_ARGUMENT naming the field; NOT_FOUND for another model.
  [[nodiscard]] absl::StatusOr<PreparedRequest> Parse(const v1::GenerateRequest& request) const;

  [[nodiscard]] const Policy& default_policy() const { return default_policy_; }

 private:
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> Prompt(
      const v1::GenerateRequest& request) const;
  [[nodiscard]] absl::StatusOr<SamplingParams> Sampling(const v1::SamplingParams& sampling) const;
  [[nodiscard]] absl::Status SetLimits(const v1::StopConditions& stop,
                                       DecodeRequest& request) const;
  [[nodiscard]] absl::StatusOr<Policy> PolicyOf(const v1::SpeculationOptions& options) const;

  const ServedModel* const model_;
  const Policy default_policy_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_REQUEST_PARSER_H_
