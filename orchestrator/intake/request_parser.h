// RequestParser: converts a GenerateRequest to a checked, tokenized request. A field that is out of
// range or not supported is an INVALID_ARGUMENT error that names the field; it is never ignored.
// The bounds of generation.proto are checked before anything is rendered or tokenized. All errors
// are for clients (error_details.h).
//
// Thread-safe.
#ifndef BASTION_ORCHESTRATOR_INTAKE_REQUEST_PARSER_H_
#define BASTION_ORCHESTRATOR_INTAKE_REQUEST_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bastion/v1/generation.pb.h"
#include "common/base/status.h"
#include "orchestrator/intake/grammar_constraint.h"
#include "orchestrator/intake/served_model.h"
#include "orchestrator/schedule/prepared_request.h"

namespace bastion {

struct ParserOptions {
  // Limits the nodes of the trees that requests name. The target's largest forward limits all.
  NodeCap node_cap = {.on_cpu = 64};
  // Limits the text of a prompt, before and after the chat template. 0: DefaultPromptBytes().
  size_t max_prompt_bytes = 0;
  // The base names of the policies that clients may ask for, e.g. "fixed". Empty: all. The default
  // policy is always allowed.
  std::vector<std::string> allowed_policies = {};
  // Refuses texts and messages that contain special tokens. A client could end its message with
  // them and begin one of another role.
  bool refuse_special_tokens = false;
};

// The bytes of the longest text that may fit into the context, within fixed limits.
[[nodiscard]] size_t DefaultPromptBytes(const ServedModel& model);

class RequestParser {
 public:
  // The answers that a call may ask for: as many as in OpenAI's API.
  static constexpr uint32_t kMaxAnswers = 128;
  // The answers to each prompt of a call.
  [[nodiscard]] static uint32_t AnswersPerPrompt(const v1::GenerateRequest& request) {
    return request.has_n() ? request.n() : 1;
  }

  // `model` must outlive this object. `default_policy` is for requests that do not set a policy.
  RequestParser(const ServedModel* model, Policy default_policy, const ParserOptions& options = {});

  // Checks everything that costs less than tokenizing: INVALID_ARGUMENT with the name of the field;
  // NOT_FOUND for a model that is not served.
  [[nodiscard]] absl::Status CheckBounds(const v1::GenerateRequest& request) const;
  // Checks all fields but the constraint, and tokenizes the prompt. Callers with different names
  // (Security; empty if there is none) share nothing, also with the same cache_salt. The request
  // counts for `client` (PreparedRequest). Errors as above.
  [[nodiscard]] absl::StatusOr<PreparedRequest> ParseText(const v1::GenerateRequest& request,
                                                          absl::string_view caller = "",
                                                          absl::string_view client = "") const;
  // Compiles the constraints of requests whose text is parsed.
  [[nodiscard]] ConstraintCompiler& constraints() const { return *constraints_; }
  // Both, without limits of time.
  [[nodiscard]] absl::StatusOr<PreparedRequest> Parse(const v1::GenerateRequest& request,
                                                      absl::string_view caller = "",
                                                      absl::string_view client = "") const {
    ASSIGN_OR_RETURN(PreparedRequest parsed, ParseText(request, caller, client));
    ASSIGN_OR_RETURN(parsed.decode.constraint,
                     constraints_->Compile(request, parsed.decode.cache_salt,
                                           {.client = std::string(client)}, parsed.reasoning));
    return parsed;
  }

  [[nodiscard]] const Policy& default_policy() const { return default_policy_; }
  // Bytes of the largest request that can be valid.
  [[nodiscard]] size_t max_request_bytes() const;

 private:
  [[nodiscard]] absl::Status CheckPromptBounds(const v1::GenerateRequest& request) const;
  [[nodiscard]] absl::Status CheckTextBytes(absl::string_view field, size_t bytes) const;
  // INVALID_ARGUMENT if the text contains a special token.
  [[nodiscard]] absl::Status CheckSpecialTokens(absl::string_view field,
                                                const std::string& text) const;
  // The same for all messages and template arguments.
  [[nodiscard]] absl::Status CheckSpecialTokens(const v1::ChatMessages& chat) const;
  // The tokens of the text in `field`.
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> Encode(absl::string_view field,
                                                            const std::string& text,
                                                            bool add_special) const;
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> ParsePrompt(
      const v1::GenerateRequest& request) const;
  [[nodiscard]] absl::StatusOr<SamplingParams> ParseSampling(
      const v1::SamplingParams& sampling) const;
  // Sets the request's share of the server: its weight, its latency target and the limits of its
  // trees.
  [[nodiscard]] absl::Status SetShare(const v1::GenerateRequest& request,
                                      DecodeRequest& decode) const;
  [[nodiscard]] absl::StatusOr<Policy> ParsePolicy(const v1::SpeculationOptions& options) const;

  const ServedModel* const model_;
  const Policy default_policy_;
  const ParserOptions options_;
  std::unique_ptr<ConstraintCompiler> constraints_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_REQUEST_PARSER_H_
