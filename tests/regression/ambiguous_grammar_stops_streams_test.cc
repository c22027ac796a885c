// Seen: a grammar of 60 bytes with many ways to read each text slowed all answers 50-fold, because
// its masks took up to 0.5 s each, on the thread that decodes for everybody.
#include <string>

#include "common/hub/grammar.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

constexpr int kTokens = 150;

TEST(AmbiguousGrammarTest, IsSoonTooComplex) {
  const Tokenizer tokenizer = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  const GrammarCompiler compiler =
      *GrammarCompiler::Create(tokenizer, testing::kByteLevelVocabulary, {testing::kEndOfText});
  for (const char* grammar : {"start: s\ns: s s s | s s | \"a\"", "start: s\ns: s s | /[a-z ]/"}) {
    auto state = compiler.Compile(GrammarKind::kLark, grammar);
    ASSERT_TRUE(state.ok()) << state.status();
    absl::Status status;
    for (int i = 0; i < kTokens && status.ok(); ++i) {
      status = state->Allowed().status();
      if (status.ok()) status = state->Push('a');
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << grammar << ": " << status;
  }
}

}  // namespace
}  // namespace bastion::hub
