#include "tools/exactness/distribution_check.h"

#include <algorithm>

#include "common/base/status.h"
#include "orchestrator/tree/best_first.h"
#include "tools/exactness/walk_outcomes.h"
#include "tools/sampling/target_distribution.h"

namespace bastion {
namespace {

// Probability that a correct target fails any of the chi-square tests.
constexpr double kFamilyLevel = 1e-4;
// The total variation sums over many outcomes, so it is almost normal. A correct target exceeds
// five standard deviations once in millions of runs.
constexpr double kMaxDeviations = 5;
constexpr double kSumTolerance = 1e-9;  // Rounding error of a sum of probabilities.
constexpr int kBootstrapRounds = 1000;
constexpr int kTestedChoices[] = {1, 2, 0};  // DistributionTest::choices of the tests.
constexpr int kCandidates = 64;

// A prompt, a tree after it, and the target's log-probabilities after each node.
struct FixedTree {
  std::vector<TokenId> prompt;
  DraftTree tree{0};
  std::vector<std::vector<double>> log_probs;  // [rows][V]

  // For each node, the distribution [V] of the token after it, with the rules of `choice`.
  [[nodiscard]] std::vector<std::vector<double>> Distributions(const ChoiceParams& choice) const {
    std::vector<std::vector<double>> distributions;
    distributions.reserve(log_probs.size());
    for (const auto& row : log_probs) distributions.push_back(ChoiceProbabilities(row, choice));
    return distributions;
  }
};

class DistributionChecker {
 public:
  explicit DistributionChecker(const DistributionCheck& check)
      : check_(check), next_session_(check.first_session), next_seed_(check.first_seed) {}

  absl::StatusOr<DistributionReport> Run();

 private:
  [[nodiscard]] SequenceId NextId() { return {next_session_++, 0}; }
  [[nodiscard]] Position cached() const { return static_cast<Position>(fixed_.prompt.size()) - 1; }

  // Chooses a prompt, grows its tree and sets fixed_.
  absl::Status ChooseTree();
  // Grows the drafter's tree after `prompt`. The tree is only a root if the drafter returns no
  // candidates.
  absl::StatusOr<DraftTree> GrowTree(const std::vector<TokenId>& prompt);
  absl::StatusOr<DraftResult> RequestDraft(SequenceId id, const std::vector<TokenId>& prompt);
  // Computes the log-probabilities after each node by plain decoding. [rows][V]
  absl::StatusOr<std::vector<std::vector<double>>> LogProbsOf(const std::vector<TokenId>& prompt,
                                                              const DraftTree& tree);
  // Draws the walks of one setting and counts their outcomes.
  absl::Status Draw(const ChoiceParams& setting, const WalkOutcomes& outcomes,
                    std::vector<int64_t>& counts);
  // Draws one walk per sequence, in one batch.
  absl::Status DrawBatch(const std::vector<SequenceId>& ids, const WalkOutcomes& outcomes,
                         std::vector<int64_t>& counts);
  absl::StatusOr<VerifyResult> VerifyAll(const std::vector<SequenceId>& ids, Position cached,
                                         const DraftTree& tree);

  const DistributionCheck& check_;
  uint64_t next_session_;
  uint64_t next_seed_;
  FixedTree fixed_;
  TargetInfo target_;
  DistributionReport report_;
};

absl::StatusOr<DraftResult> DistributionChecker::RequestDraft(SequenceId id,
                                                              const std::vector<TokenId>& prompt) {
  const std::vector<TokenId> before(prompt.begin(), prompt.end() - 1);
  RETURN_IF_ERROR(check_.verifier->Prefill({id, 0, before}).status());
  Frontier frontier;
  frontier.sequence = id;
  frontier.committed = static_cast<Position>(before.size());
  frontier.root = prompt.back();
  frontier.new_tokens = before;
  frontier.candidates = std::min(kCandidates, target_.dims.vocabulary);
  return check_.drafter->Expand({frontier});
}

absl::StatusOr<DraftTree> DistributionChecker::GrowTree(const std::vector<TokenId>& prompt) {
  const SequenceId id = NextId();
  RETURN_IF_ERROR(check_.verifier->Open(id, SamplingParams()));
  const absl::StatusOr<DraftResult> drafted = RequestDraft(id, prompt);
  check_.drafter->Close(id);
  check_.verifier->Close(id);
  RETURN_IF_ERROR(drafted.status());
  const std::vector<Draft>& drafts = drafted->drafts;
  if (drafts.empty() || drafts.front().marginals.empty()) return DraftTree(prompt.back());
  const Marginals& marginals = drafts.front().marginals[0];
  RETURN_IF_ERROR(marginals.Validate(target_.dims.vocabulary));
  DraftCandidates candidates(marginals);
  return GrowBestFirst(prompt.back(), candidates, check_.tree_nodes);
}

absl::StatusOr<std::vector<std::vector<double>>> DistributionChecker::LogProbsOf(
    const std::vector<TokenId>& prompt, const DraftTree& tree) {
  std::vector<std::vector<TokenId>> prefixes;
  std::vector<std::vector<double>> log_probs;
  for (NodeIndex node = 0; node < tree.rows(); ++node) {
    prefixes.push_back(node == 0 ? prompt : prefixes[tree.parent(node)]);
    if (node > 0) prefixes.back().push_back(tree.token(node));
    ASSIGN_OR_RETURN(log_probs.emplace_back(),
                     NextLogProbs(*check_.verifier, NextId(), prefixes.back()));
  }
  return log_probs;
}

absl::Status DistributionChecker::ChooseTree() {
  ChoiceParams plain;
  plain.temperature = 1;
  double largest_entropy = -1;
  for (const std::vector<TokenId>& prompt : check_.prompts) {
    FixedTree candidate;
    candidate.prompt = prompt;
    ASSIGN_OR_RETURN(candidate.tree, GrowTree(prompt));
    if (candidate.tree.nodes() == 0) continue;
    ASSIGN_OR_RETURN(candidate.log_probs, LogProbsOf(prompt, candidate.tree));
    const double entropy = WalkOutcomes(&candidate.tree, target_.dims.vocabulary)
                               .EntropyBelowRoot(candidate.Distributions(plain));
    if (entropy <= largest_entropy) continue;
    largest_entropy = entropy;
    fixed_ = std::move(candidate);
  }
  if (largest_entropy >= 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the drafter returned no candidates for any prompt, so there is no tree to check");
}

absl::StatusOr<VerifyResult> DistributionChecker::VerifyAll(const std::vector<SequenceId>& ids,
                                                            Position cached,
                                                            const DraftTree& tree) {
  Forest forest;
  for (const SequenceId id : ids) forest.push_back({id, cached, tree});
  ASSIGN_OR_RETURN(VerifyResult result, check_.verifier->Verify(forest, {}));
  for (const VerifyOutcome& outcome : result.outcomes) RETURN_IF_ERROR(outcome.status);
  return result;
}

absl::Status DistributionChecker::DrawBatch(const std::vector<SequenceId>& ids,
                                            const WalkOutcomes& outcomes,
                                            std::vector<int64_t>& counts) {
  // Verify the prompt's tokens as roots, for all sequences in one forward. This is cheaper than
  // many short prefills.
  for (Position position = 0; position < cached(); ++position) {
    RETURN_IF_ERROR(VerifyAll(ids, position, DraftTree(fixed_.prompt[position])).status());
  }
  ASSIGN_OR_RETURN(const VerifyResult result, VerifyAll(ids, cached(), fixed_.tree));
  for (const VerifyOutcome& outcome : result.outcomes) {
    ASSIGN_OR_RETURN(const size_t cell, outcomes.CellOf(outcome.acceptance));
    ++counts[cell];
    ++report_.walks;
    report_.choices += outcome.acceptance.committed_length();
  }
  return absl::OkStatus();
}

absl::Status DistributionChecker::Draw(const ChoiceParams& setting, const WalkOutcomes& outcomes,
                                       std::vector<int64_t>& counts) {
  const auto settings = static_cast<int>(check_.settings.size());
  const int batch_size =
      std::clamp(check_.batch_size, 1, std::max(1, target_.max_rows / fixed_.tree.rows()));
  for (int left = (check_.walks + settings - 1) / settings; left > 0;) {
    std::vector<SequenceId> ids;
    absl::Status status;
    while (status.ok() && static_cast<int>(ids.size()) < std::min(left, batch_size)) {
      SamplingParams sampling;
      static_cast<ChoiceParams&>(sampling) = setting;
      sampling.seed = next_seed_++;
      sampling.prompt_tokens = static_cast<int>(fixed_.prompt.size());
      ids.push_back(NextId());
      status = check_.verifier->Open(ids.back(), sampling);
    }
    if (status.ok()) status = DrawBatch(ids, outcomes, counts);
    for (const SequenceId id : ids) check_.verifier->Close(id);
    RETURN_IF_ERROR(status);
    left -= static_cast<int>(ids.size());
    if (check_.progress) check_.progress(static_cast<int>(report_.walks), check_.walks);
  }
  return absl::OkStatus();
}

DistributionTest TestOf(const WalkOutcomes& outcomes, const std::vector<double>& probabilities,
                        const std::vector<int64_t>& counts, int choices) {
  std::vector<double> shorter(outcomes.cells(), 0);
  std::vector<int64_t> shorter_counts(outcomes.cells(), 0);
  for (size_t cell = 0; cell < outcomes.cells(); ++cell) {
    if (probabilities[cell] == 0 && counts[cell] == 0) continue;
    // Do not merge an impossible outcome with others.
    const size_t to = probabilities[cell] > 0 ? outcomes.TruncateWalk(cell, choices) : cell;
    shorter[to] += probabilities[cell];
    shorter_counts[to] += counts[cell];
  }
  const Bins bins = PoolRare(shorter, shorter_counts);
  DistributionTest test;
  test.choices = choices;
  test.draws = bins.draws;
  test.chi_square = ChiSquareOf(bins);
  test.total_variation = TotalVariation(bins);
  test.expected = BootstrapTotalVariation(bins, kBootstrapRounds);
  test.max_total_variation =
      test.expected.mean + kMaxDeviations * test.expected.deviation + kSumTolerance;
  return test;
}

absl::StatusOr<DistributionReport> DistributionChecker::Run() {
  ASSIGN_OR_RETURN(target_, check_.verifier->Info());
  RETURN_IF_ERROR(ChooseTree());
  const DraftTree& tree = fixed_.tree;
  const WalkOutcomes outcomes(&tree, target_.dims.vocabulary);
  report_.tree_rows = tree.rows();
  for (NodeIndex i = 0; i < tree.rows(); ++i) {
    report_.tree_depth = std::max(report_.tree_depth, tree.depth(i));
  }
  for (const ChoiceParams& setting : check_.settings) {
    const std::vector<double> probabilities = outcomes.Probabilities(fixed_.Distributions(setting));
    std::vector<int64_t> counts(outcomes.cells(), 0);
    RETURN_IF_ERROR(Draw(setting, outcomes, counts));
    for (const int choices : kTestedChoices) {
      report_.tests.push_back(TestOf(outcomes, probabilities, counts, choices));
      report_.tests.back().setting = setting;
    }
  }
  report_.min_p_value =
      kFamilyLevel / static_cast<double>(std::max<size_t>(1, report_.tests.size()));
  for (DistributionTest& test : report_.tests) {
    test.passed = test.chi_square.p_value >= report_.min_p_value &&
                  test.total_variation <= test.max_total_variation;
  }
  return std::move(report_);
}

}  // namespace

bool DistributionReport::exact() const {
  return std::all_of(tests.begin(), tests.end(),
                     [](const DistributionTest& test) { return test.passed; });
}

absl::StatusOr<DistributionReport> CheckDistribution(const DistributionCheck& check) {
  return DistributionChecker(check).Run();
}

}  // namespace bastion
