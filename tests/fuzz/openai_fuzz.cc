// Requests of OpenAI's API, as clients send them, and the names in their errors.
#include "common/base/check.h"
#include "orchestrator/openai/openai_answers.h"
#include "orchestrator/openai/openai_request.h"
#include "orchestrator/serve/error_details.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  const auto kind =
      input.Byte() % 2 == 0 ? bastion::OpenAiKind::kCompletion : bastion::OpenAiKind::kChat;
  const auto request = bastion::ParseOpenAiRequest(kind, input.Rest());
  if (!request.ok()) {
    CHECK(bastion::IsForClient(request.status())) << request.status();
    // Errors repeat no long strings of the client.
    CHECK_LT(request.status().message().size(), 4096u) << request.status();
    CHECK(!bastion::OpenAiErrorJson(bastion::OpenAiRequest(), request.status()).empty());
    return 0;
  }
  CHECK(request->generate.prompt_case() != bastion::v1::GenerateRequest::PROMPT_NOT_SET);
  return 0;
}
