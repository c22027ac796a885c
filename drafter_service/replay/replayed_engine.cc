#include "drafter_service/replay/replayed_engine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bastion::drafter {

void AppendReplayed(const ReplayedPosition& position, int vocabulary, Marginals& marginals) {
  const float first = std::log(position.top), step = std::log1p(-position.top);
  std::mt19937_64 random(position.seed);
  auto other = static_cast<TokenId>(random() % static_cast<uint64_t>(vocabulary));
  for (int r = 0; r < marginals.candidates; ++r) {
    marginals.log_probs.push_back(first + static_cast<float>(r) * step);
    if (position.truth >= 0 && r == position.rank) {
      marginals.tokens.push_back(position.truth);
      continue;
    }
    if (other == position.truth) other = (other + 1) % vocabulary;
    marginals.tokens.push_back(other);
    other = (other + 1) % vocabulary;
  }
}

ReplayedEngine::ReplayedEngine(std::unique_ptr<DrafterEngine> engine, AcceptanceProfile profile,
                               const KnownTexts* texts)
    : WrappedEngine(std::move(engine)), profile_(std::move(profile)), texts_(texts) {
  absl::StrAppend(&info_.model, "+", profile_.name);
  order_.resize(profile_.blocks.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::shuffle(order_.begin(), order_.end(), std::mt19937_64(1));
}

size_t ReplayedEngine::BlockOf(const Frontier& frontier) {
  Drawn& drawn = drawn_[frontier.sequence];
  if (drawn.committed != frontier.committed) {
    drawn = {frontier.committed, order_[cycles_++ % order_.size()]};
  }
  return drawn.block;
}

void ReplayedEngine::Drafted(const Frontier& frontier, const std::vector<TokenId>& tokens,
                             Draft& draft) {
  std::vector<TokenId> text = tokens;
  text.push_back(frontier.root);
  const size_t after_root = text.size();
  const std::vector<TokenId>* const known = texts_->Find(text);
  const size_t drawn = BlockOf(frontier);
  const ProfiledBlock& block = profile_.blocks[drawn];
  for (size_t i = 0; i < draft.marginals.size(); ++i) {
    if (draft.marginals[i].empty()) continue;
    const std::vector<TokenId>& path = frontier.paths[i];
    const bool is_true =
        known != nullptr && known->size() >= after_root + path.size() &&
        std::equal(path.begin(), path.end(), known->begin() + static_cast<int64_t>(after_root));
    Marginals replayed;
    const int depths_left = profile_.positions() - static_cast<int>(path.size());
    replayed.positions = std::clamp(depths_left, 0, draft.marginals[i].positions);
    replayed.candidates =
        replayed.positions == 0 ? 0 : std::min(draft.marginals[i].candidates, info_.vocabulary - 1);
    for (size_t p = 0; p < static_cast<size_t>(replayed.positions); ++p) {
      const size_t depth = path.size() + p;
      const size_t at = after_root + path.size() + p;
      const TokenId truth = is_true && at < known->size() ? (*known)[at] : -1;
      const TokenId parent = path.empty() ? frontier.root : path.back();
      const uint64_t seed = (drawn * 1'000'003 + depth) * 1'000'003 + static_cast<uint64_t>(parent);
      AppendReplayed({block.top[depth], block.ranks[depth], truth, seed}, info_.vocabulary,
                     replayed);
    }
    draft.marginals[i] = std::move(replayed);
  }
}

}  // namespace bastion::drafter
