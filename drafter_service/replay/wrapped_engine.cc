#include "drafter_service/replay/wrapped_engine.h"

#include <utility>

#include "common/base/status.h"

namespace bastion::drafter {

WrappedEngine::WrappedEngine(std::unique_ptr<DrafterEngine> engine)
    : info_(engine->info()), engine_(std::move(engine)) {
  info_.wants_tokens = true;
}

absl::StatusOr<std::vector<Draft>> WrappedEngine::Expand(absl::Span<const Frontier> frontiers) {
  ASSIGN_OR_RETURN(std::vector<Draft> drafts, engine_->Expand(frontiers));
  for (size_t i = 0; i < frontiers.size(); ++i) {
    const Frontier& frontier = frontiers[i];
    std::vector<TokenId>& tokens = tokens_[frontier.sequence];
    const size_t known = frontier.committed - frontier.new_tokens.size();
    if (tokens.size() < known) continue;  // They come again with all tokens.
    tokens.resize(known);
    tokens.insert(tokens.end(), frontier.new_tokens.begin(), frontier.new_tokens.end());
    if (drafts[i].status.ok()) Drafted(frontier, tokens, drafts[i]);
  }
  return drafts;
}

void WrappedEngine::Close(SequenceId sequence) {
  if (const auto found = tokens_.find(sequence); found != tokens_.end()) {
    Closing(sequence, found->second);
    tokens_.erase(found);
  }
  engine_->Close(sequence);
}

}  // namespace bastion::drafter
