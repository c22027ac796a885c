// What arrives in headers, small bodies and small files: HTTP targets and hosts, traceparent,
// tokens, access lists, prompts of the console.
#include "common/access/access_list.h"
#include "common/base/check.h"
#include "common/http/http_names.h"
#include "common/telemetry/trace_context.h"
#include "common/wire/security.h"
#include "orchestrator/console/console_json.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion {
namespace {

void ParseHttp(const std::string& text) {
  (void)ParseTarget(text);
  (void)SplitHostPort(text);
  (void)IsOwnHost(text, {"bastion.example"});
  (void)IsSameOrigin(text, "bastion.example");
  // Only this host is local.
  CHECK(!wire::IsLocalAddress(text) || text.rfind("0.0.0.0", 0) != 0) << text;
}

void ParseTrace(const std::string& text) {
  const auto context = ParseTraceparent(text);
  if (!context) return;
  const auto again = ParseTraceparent(FormatTraceparent(*context));
  CHECK(again.has_value());
  CHECK_EQ(again->trace_low, context->trace_low);
}

void ParseAccess(const std::string& text) {
  (void)TokenOf(text);
  const testing::MemoryFile file(text);
  const auto list = AccessList::Load(file.path());
  if (!list.ok()) return;
  // An empty proof never suffices.
  CHECK(!(*list)->Authorize({}, Right::kGenerate).ok());
  CHECK(!(*list)->Authorize({.authorization = "Bearer "}, Right::kVerify).ok());
}

void ParsePrompt(const std::string& text) {
  const auto request = ParseConsolePrompt(text);
  if (request.ok()) {
    (void)request->SerializeAsString();
    return;
  }
  // The console answers with the error as a line of JSON.
  const std::string line = ConsoleErrorLine(request.status());
  CHECK_LT(line.size(), 4096u);
  CHECK_EQ(line.find('\n'), line.size() - 1);
}

}  // namespace
}  // namespace bastion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  constexpr void (*kTargets[])(const std::string&) = {bastion::ParseHttp, bastion::ParseTrace,
                                                      bastion::ParseAccess, bastion::ParsePrompt};
  const size_t which = input.Byte() % std::size(kTargets);
  kTargets[which](input.Rest());
  return 0;
}
