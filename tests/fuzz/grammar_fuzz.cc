// Grammars of clients, and walks through them: exactly what is allowed can be pushed, what is
// pushed can be popped, and then the same is allowed as before. No input takes more than its share
// of memory and CPU time.
#include <time.h>

#include <vector>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/hub/grammar.h"
#include "common/hub/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion {
namespace {

constexpr int kVocabulary = 4096;
constexpr TokenId kEnd = 0;
constexpr int kSteps = 8;
// What a compile and a mask may take. Sanitizers and the fuzzer's counters take a part of it.
constexpr absl::Duration kCompileTime = absl::Seconds(4);
constexpr absl::Duration kMaskTime = absl::Seconds(1);
constexpr size_t kStateBytes = size_t{64} << 20;

// Measures the CPU time of this thread, and of a thread that it waits for.
absl::Duration ProcessCpuTime() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

const hub::GrammarCompiler& Compiler() {
  static const auto* const compiler = [] {
    const auto tokenizer = hub::Tokenizer::Load(BASTION_SOURCE_DIR "/deploy/demo_model/target");
    CHECK(tokenizer.ok()) << tokenizer.status();
    auto made = hub::GrammarCompiler::Create(*tokenizer, kVocabulary, {kEnd});
    CHECK(made.ok()) << made.status();
    return new hub::GrammarCompiler(*std::move(made));
  }();
  return *compiler;
}

// The `number`th token of `set` other than kEnd, cyclically; kNoToken if there is none.
TokenId Choose(const TokenSet& set, uint64_t number) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < set.vocabulary(); ++token) {
    if (token != kEnd && set.contains(token)) tokens.push_back(token);
  }
  return tokens.empty() ? kNoToken : tokens[number % tokens.size()];
}

// Tries some tokens, which `seed` chooses.
void CheckTokens(const TokenSet& allowed, uint32_t seed, hub::GrammarState& state) {
  constexpr int kTokens = 8;
  for (int i = 0; i < kTokens; ++i) {
    seed = seed * 1664525 + 1013904223;
    const auto token = static_cast<TokenId>((seed >> 8) % kVocabulary);
    if (token == kEnd) continue;
    const absl::Status pushed = state.Push(token);
    if (absl::IsResourceExhausted(pushed)) return;  // Too complex.
    CHECK(pushed.ok() == allowed.contains(token)) << token << ": " << pushed;
    if (!pushed.ok()) continue;
    CHECK(state.Pop(1).ok());
  }
}

}  // namespace
}  // namespace bastion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using bastion::TokenId, bastion::TokenSet;
  bastion::testing::FuzzInput input(data, size);
  const auto kind = static_cast<bastion::hub::GrammarKind>(input.Byte() % 3);
  const std::string choices = input.Bytes(bastion::kSteps);
  const bastion::hub::GrammarCompiler& compiler = bastion::Compiler();
  const absl::Duration began = bastion::ProcessCpuTime();
  auto state = compiler.Compile(kind, input.Rest());
  CHECK(bastion::ProcessCpuTime() - began < bastion::kCompileTime);
  if (!state.ok()) {
    CHECK_LT(state.status().message().size(), 512u) << state.status();
    return 0;
  }
  std::vector<TokenSet> before;
  for (const char choice : choices) {
    if (state->complete()) break;
    const auto allowed = state->Allowed(bastion::kMaskTime);
    CHECK_LT(state->bytes(), bastion::kStateBytes);
    if (!allowed.ok()) return 0;  // Too complex.
    CHECK_GT(allowed->size(), 0);
    bastion::CheckTokens(*allowed, static_cast<uint8_t>(choice), *state);
    const TokenId token = bastion::Choose(*allowed, static_cast<uint8_t>(choice));
    if (token == bastion::kNoToken) break;
    if (!state->Push(token).ok()) return 0;
    before.push_back(*allowed);
  }
  for (auto expected = before.rbegin(); expected != before.rend(); ++expected) {
    CHECK(state->Pop(1).ok());
    const auto allowed = state->Allowed();
    CHECK(allowed.ok()) << allowed.status();
    CHECK(*allowed == *expected) << "a step back changed what is allowed";
  }
  return 0;
}
