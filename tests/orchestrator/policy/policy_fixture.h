// A fixture for tests of policies: random marginals, and verify costs that are linear in the number
// of rows (linear_costs.h). It grows the tree of one request with all nodes that its policy
// proposals. Header-only.
#ifndef BASTION_TESTS_ORCHESTRATOR_POLICY_POLICY_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_POLICY_POLICY_FIXTURE_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/policy/request_policy.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/linear_costs.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {

using ::bastion::testing::EdgeCase;
using ::bastion::testing::RandomMarginals;

inline constexpr TokenId kRoot = 7;
inline constexpr TokenId kOther = 99999;  // A token that is not a candidate.
// 100 cached tokens, at most 127 nodes, depth at most 15.
inline constexpr TreeLimits kWide = {100, 127, 15};

class PolicyFixture : public ::testing::Test {
 protected:
  static constexpr int kVocabulary = 2000;

  std::unique_ptr<RequestPolicy> Request(const std::string& policy) {
    return Policy::Parse(policy)->NewRequest(/*greedy=*/true, &costs_, &memory_);
  }
  // Like Request, with a transition prior. The prompt is "1 2 3 … 9" three times and then 1, the
  // first root.
  std::unique_ptr<RequestPolicy> PriorRequest(const std::string& policy) {
    std::unique_ptr<RequestPolicy> request =
        Policy::Parse(policy)->NewRequest(/*greedy=*/true, &costs_, &prior_memory_);
    std::vector<TokenId> prompt;
    for (int i = 0; i < 28; ++i) prompt.push_back(1 + i % 9);
    request->ObservePrompt(prompt);
    return request;
  }

  // The same minimum for all nodes. Valid until the next call.
  absl::Span<const double> Flat(double min_value) {
    min_value_ = min_value;
    return {&min_value_, 1};
  }
  // One cycle up to the tree: drafts if the policy would use a draft, and takes all nodes offered.
  GrownTree Grow(RequestPolicy& request, TokenId root, const Marginals& draft,
                 const TreeLimits& limits = kWide, double min_value = 0.01) {
    request.Begin(root, limits, Flat(min_value));
    while (request.NextRound() != nullptr) request.AddDraft({draft});
    const TreeProposal proposal = request.ProposeTree();
    return request.Finish(static_cast<int>(proposal.values.size()), proposal.end);
  }
  GrownTree Grow(const std::string& policy, const TreeLimits& limits = kWide) {
    return Grow(*Request(policy), kRoot, marginals_, limits);
  }
  // Like Grow, but the planner declines every draft that is not required.
  GrownTree GrowWithoutDraft(RequestPolicy& request, TokenId root, const TreeLimits& limits = kWide,
                             double min_value = 0.01) {
    request.Begin(root, limits, Flat(min_value));
    for (const DraftRound* round = request.NextRound(); round != nullptr && round->required;) {
      request.AddDraft({Marginals()});
      round = request.NextRound();
    }
    const TreeProposal proposal = request.ProposeTree();
    return request.Finish(static_cast<int>(proposal.values.size()), proposal.end);
  }

  // The next tokens of the prompt's repetition after `root`.
  static std::vector<TokenId> Copy(TokenId root, int length) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < length; ++i) tokens.push_back(1 + (root - 1 + i + 1) % 9);
    return tokens;
  }
  // The target's acceptance of `tree` if it continues the repetition.
  static Acceptance AcceptCopy(const DraftTree& tree) {
    Acceptance acceptance;
    const std::vector<TokenId> copy = Copy(tree.token(0), 64);
    NodeIndex tip = 0;
    for (NodeIndex i = 1; i < tree.rows(); ++i) {
      if (tree.parent(i) != tip || tree.token(i) != copy[acceptance.path.size()]) continue;
      acceptance.path.push_back(tip = i);
    }
    acceptance.next = copy[acceptance.path.size()];
    return acceptance;
  }

  double min_value_ = 0;
  CostModel costs_ = testing::LinearCosts();
  SharedLearning memory_;
  const TransitionGains gains_{testing::RandomTable(kVocabulary, 8, 1)};
  SharedLearning prior_memory_{PriorInputs{.vocabulary = kVocabulary, .table = &gains_}};
  std::mt19937 random_{1};
  Marginals marginals_ = RandomMarginals(random_, 15, 32, EdgeCase::kNone, 6.0);
  DraftCandidates candidates_{marginals_};
};

}  // namespace bastion

#endif  // BASTION_TESTS_ORCHESTRATOR_POLICY_POLICY_FIXTURE_H_
