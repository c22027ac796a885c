// A DrafterEngine without a model, which predicts token 0 and the tokens after it everywhere.
// Header-only.
#ifndef BASTION_TESTS_DRAFTER_SERVICE_REPLAY_STUB_ENGINE_H_
#define BASTION_TESTS_DRAFTER_SERVICE_REPLAY_STUB_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "drafter_service/engine/drafter_engine.h"

namespace bastion::drafter {

class StubEngine final : public DrafterEngine {
 public:
  static constexpr int kVocabulary = 500;

  // With one position, it expands nodes.
  static std::unique_ptr<StubEngine> Make(int positions) { return Make(positions, positions == 1); }
  static std::unique_ptr<StubEngine> Make(int positions, bool expands_nodes) {
    auto engine = std::make_unique<StubEngine>();
    engine->info_ = {"stub", positions, kVocabulary, 10'000, false, expands_nodes};
    return engine;
  }
  // The rank head's prediction for every position from now on.
  void set_bucket(uint8_t bucket) { bucket_ = bucket; }

  const DrafterInfo& info() const override { return info_; }
  const std::vector<int>& feature_layers() const override { return layers_; }
  nn::ForwardCost cost() const override { return {}; }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override {
    std::vector<Draft> drafts;
    for (const Frontier& frontier : frontiers) {
      open_.insert(frontier.sequence.session);
      Draft& draft = drafts.emplace_back();
      for (const auto& path : frontier.paths) {
        Marginals& marginals = draft.marginals.emplace_back();
        if (!path.empty() && !info_.expands_nodes) continue;
        marginals.positions = info_.positions;
        marginals.candidates = frontier.candidates;
        if (bucket_.has_value()) marginals.buckets.assign(info_.positions, *bucket_);
        for (int p = 0; p < info_.positions; ++p) {
          for (int r = 0; r < frontier.candidates; ++r) {
            marginals.tokens.push_back(r);
            marginals.log_probs.push_back(-1.0F - static_cast<float>(r));
          }
        }
      }
    }
    return drafts;
  }
  void FeaturesArrived(SequenceId, Position, TokenId) override {}
  void Close(SequenceId sequence) override { open_.erase(sequence.session); }
  bool AppendPiece(const FeatureRange&, absl::StatusOr<Features>) override { return false; }
  const DraftTrace& last_trace() const override { return trace_; }
  int live_sequences() const override { return static_cast<int>(open_.size()); }

 private:
  DrafterInfo info_;
  std::vector<int> layers_;
  DraftTrace trace_;
  std::set<uint64_t> open_;
  std::optional<uint8_t> bucket_;
};

}  // namespace bastion::drafter

#endif  // BASTION_TESTS_DRAFTER_SERVICE_REPLAY_STUB_ENGINE_H_
