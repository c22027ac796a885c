// Seen: a grammar of 400 bytes that can only be a text of gigabytes stopped all answers and filled
// the memory of the orchestrator, because each cycle looked for all the text that must follow.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/hub/grammar.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

constexpr size_t kLongestForced = 256;
constexpr int kDoublings = 40;

class ForcedTextTest : public ::testing::Test {
 protected:
  const Tokenizer tokenizer_ = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  const GrammarCompiler compiler_ =
      *GrammarCompiler::Create(tokenizer_, testing::kByteLevelVocabulary, {testing::kEndOfText});
};

// The only text of the grammar is "x" 2^40 times.
std::string DoublingRules() {
  std::string grammar = "start: r0\n";
  for (int i = 0; i < kDoublings; ++i)
    absl::StrAppend(&grammar, "r", i, ": r", i + 1, " r", i + 1, "\n");
  absl::StrAppend(&grammar, "r", kDoublings, ": \"x\"\n");
  return grammar;
}

TEST_F(ForcedTextTest, OfRulesThatDoubleIsShort) {
  auto state = compiler_.Compile(GrammarKind::kLark, DoublingRules());
  ASSERT_TRUE(state.ok()) << state.status();
  StopWatch watch(Clock::Real());
  const std::string forced = *state->Forced();
  EXPECT_LT(watch.Lap(), absl::Seconds(1));
  EXPECT_GE(forced.size(), 1u);
  EXPECT_LE(forced.size(), kLongestForced);
  EXPECT_EQ(forced, std::string(forced.size(), 'x'));
}

TEST_F(ForcedTextTest, CanBeFollowedToItsEnd) {
  auto state = compiler_.Compile(GrammarKind::kRegex, "x{3000}");
  ASSERT_TRUE(state.ok()) << state.status();
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(state->Forced()->front(), 'x') << i;
    ASSERT_TRUE(state->Push('x').ok()) << i;
  }
  EXPECT_TRUE(state->complete());
  EXPECT_EQ(*state->Forced(), "");
}

}  // namespace
}  // namespace bastion::hub
