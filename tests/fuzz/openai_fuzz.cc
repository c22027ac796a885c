// Requests of OpenAI's API, as clients send them, and the names in their errors. The same bytes as
// the answer of a model with reasoning and calls, in pieces.
#include "common/base/check.h"
#include "orchestrator/openai/openai_answers.h"
#include "orchestrator/openai/openai_request.h"
#include "orchestrator/openai/reasoning_reader.h"
#include "orchestrator/openai/tool_call_reader.h"
#include "orchestrator/schedule/error_details.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion {
namespace {

// The text of the calls does not depend on the pieces.
void ReadAnswer(ToolFormat format, const std::string& text, size_t piece) {
  const auto read = [&](size_t size) {
    ReasoningReader reasoning(ReasoningStart::kMayBegin);
    ToolCallReader reader({format, {"f"}});
    std::string content, calls;
    const auto add = [&](const ToolCallText& part) {
      content += part.content;
      for (const ToolCallDelta& call : part.calls) calls += call.name + call.arguments;
    };
    for (size_t at = 0; at < text.size(); at += size) {
      add(reader.Push(reasoning.Push(text.substr(at, size)).rest));
    }
    add(reader.Push(reasoning.Finish().rest));
    add(reader.Finish());
    return content + calls;
  };
  CHECK_EQ(read(piece), read(text.size() + 1));
}

}  // namespace
}  // namespace bastion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  const auto kind =
      input.Byte() % 2 == 0 ? bastion::OpenAiKind::kCompletion : bastion::OpenAiKind::kChat;
  const std::string body = input.Rest();
  for (const auto format :
       {bastion::ToolFormat::kHermes, bastion::ToolFormat::kLlama, bastion::ToolFormat::kMistral}) {
    bastion::ReadAnswer(format, body, 1 + size % 7);
  }
  const auto request = bastion::ParseOpenAiRequest(kind, body);
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
