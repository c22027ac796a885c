// The fixture of the tests of DecodeCycle: the verifier and drafter of tests/support/fake_stages.h,
// whose text is known.
#ifndef BASTION_TESTS_ORCHESTRATOR_CYCLE_DECODE_CYCLE_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_CYCLE_DECODE_CYCLE_FIXTURE_H_

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/fake_stages.h"
#include "tests/support/linear_costs.h"
#include "tests/support/manual_clock.h"

namespace bastion {

inline constexpr int kTokens = 60;
inline const std::vector<TokenId> kPrompt = {5, 17, 3, 88, 42};

class DecodeCycleTest : public ::testing::Test {
 protected:
  DecodeSequence Make(uint64_t session, const std::string& policy, SamplingParams sampling = {}) {
    DecodeRequest request;
    request.id = {session, 0};
    request.prompt = kPrompt;
    request.sampling = sampling;
    request.max_tokens = kTokens;
    return DecodeSequence(std::move(request),
                          Policy::Parse(policy)->NewRequest(/*greedy=*/true, &costs_, &memory_));
  }

  void Begin(DecodeSequence& sequence) {
    cycle_.Open(sequence);
    while (cycle_.Prefill(sequence, /*max_tokens=*/2)) {
    }
    ASSERT_TRUE(sequence.status().ok()) << sequence.status();
    ASSERT_EQ(sequence.committed(), static_cast<Position>(kPrompt.size()) - 1);
  }

  void Run(DecodeSequence& sequence) {
    Begin(sequence);
    while (!sequence.done()) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  }

  testing::FakeVerifier verifier_;
  testing::FakeDrafter drafter_{&verifier_};
  testing::ManualClock clock_;
  CostModel costs_ = *CostModel::Fit(*verifier_.Info(), testing::LinearTable());
  SharedLearning memory_;
  DecodeCycle cycle_{*verifier_.Info(), &drafter_, &verifier_, &costs_, &clock_};
};

}  // namespace bastion

#endif  // BASTION_TESTS_ORCHESTRATOR_CYCLE_DECODE_CYCLE_FIXTURE_H_
