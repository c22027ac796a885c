// Parses bodies of OpenAI's API in tests.
#ifndef BASTION_TESTS_ORCHESTRATOR_OPENAI_OPENAI_REQUESTS_H_
#define BASTION_TESTS_ORCHESTRATOR_OPENAI_OPENAI_REQUESTS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "orchestrator/openai/openai_request.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion::testing {

inline OpenAiRequest ParseOk(OpenAiKind kind, const nlohmann::json& body) {
  absl::StatusOr<OpenAiRequest> request = ParseOpenAiRequest(kind, body.dump());
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? *std::move(request) : OpenAiRequest{};
}
// The request of a completion or a chat with these parameters. It must be valid.
inline OpenAiRequest Completion(nlohmann::json body) {
  body.emplace("prompt", "a");
  return ParseOk(OpenAiKind::kCompletion, body);
}
inline OpenAiRequest Chat(nlohmann::json body) {
  body.emplace("messages", nlohmann::json::array({{{"role", "user"}, {"content", "a"}}}));
  return ParseOk(OpenAiKind::kChat, body);
}

// The parameter that the error of `body` names; "" if it names none.
inline std::string RefusedParameter(OpenAiKind kind, const std::string& body) {
  const absl::Status status = ParseOpenAiRequest(kind, body).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << body << ": " << status;
  EXPECT_TRUE(IsForClient(status)) << status;
  const auto problem = FieldProblemOf(status);
  return problem ? problem->field : "";
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_OPENAI_OPENAI_REQUESTS_H_
