#include "tests/support/recorded_texts.h"

#include "common/base/status.h"

namespace bastion::testing {
namespace {

constexpr uint64_t kSession = 1'000'000;  // The first session of the recording.

}  // namespace

absl::StatusOr<RecordedTexts> RecordedTexts::Record(
    Verifier& verifier, Drafter& drafter, const std::vector<std::vector<TokenId>>& prompts,
    int tokens) {
  RecordedTexts recorded;
  ASSIGN_OR_RETURN(const TargetInfo target, verifier.Info());
  recorded.vocabulary_ = target.dims.vocabulary;
  recorded.tokens_ = tokens;
  for (const std::vector<TokenId>& prompt : prompts) {
    const SequenceId id = {kSession + recorded.texts_.size(), 0};
    RETURN_IF_ERROR(verifier.Open(id, {}));
    const std::vector<TokenId> cached(prompt.begin(), prompt.end() - 1);
    RETURN_IF_ERROR(verifier.Prefill({id, 0, cached}).status());
    Text text = {prompt, {}, {}};
    Frontier frontier;
    frontier.sequence = id;
    frontier.committed = static_cast<Position>(cached.size());
    frontier.root = prompt.back();
    frontier.new_tokens = cached;
    frontier.candidates = kCandidates;
    for (int i = 0; i < tokens; ++i) {
      ASSIGN_OR_RETURN(DraftResult drafted, drafter.Expand({frontier}));
      text.drafts.push_back(std::move(drafted.drafts.at(0).marginals.at(0)));
      const Forest forest = {{id, frontier.committed, DraftTree(frontier.root)}};
      ASSIGN_OR_RETURN(const VerifyResult result, verifier.Verify(forest, {}));
      RETURN_IF_ERROR(result.outcomes.at(0).status);
      text.output.push_back(result.outcomes[0].acceptance.next);
      frontier.new_tokens = {frontier.root};
      frontier.root = text.output.back();
      ++frontier.committed;
    }
    verifier.Close(id);
    drafter.Close(id);
    recorded.texts_.push_back(std::move(text));
  }
  return recorded;
}

Marginals RecordedTexts::Predict(const Frontier& frontier) {
  const Text& text = TextOf(frontier.sequence);
  const size_t at = frontier.committed + 1 - text.prompt.size();
  return BestCandidates(text.drafts[at], frontier.candidates);
}

TokenId RecordedTexts::Choose(const VerifyItem& item, NodeIndex node) {
  const Text& text = TextOf(item.sequence);
  const size_t at = item.cached + 1 - text.prompt.size() + item.tree.depth(node);
  // Nothing is known about the tokens after the recording. No tree may count on them.
  return at < text.output.size() ? text.output[at] : 0;
}

}  // namespace bastion::testing
