// WrappedEngine: an engine that passes all calls to another one. Base of engines that change or
// observe what another engine drafts.
//
// It also keeps the committed tokens of every open sequence, so it asks for them.
#ifndef BASTION_DRAFTER_SERVICE_REPLAY_WRAPPED_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_REPLAY_WRAPPED_ENGINE_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "drafter_service/engine/drafter_engine.h"

namespace bastion::drafter {

class WrappedEngine : public DrafterEngine {
 public:
  explicit WrappedEngine(std::unique_ptr<DrafterEngine> engine);

  const DrafterInfo& info() const override { return info_; }
  const std::vector<int>& feature_layers() const override { return engine_->feature_layers(); }
  const DeviceReader* device_reader() const override { return engine_->device_reader(); }
  nn::ForwardCost cost() const override { return engine_->cost(); }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) final;
  void FeaturesArrived(SequenceId sequence, Position committed, TokenId root) override {
    engine_->FeaturesArrived(sequence, committed, root);
  }
  void Close(SequenceId sequence) final;
  bool has_piece() const override { return engine_->has_piece(); }
  FeatureRange NextPiece() override { return engine_->NextPiece(); }
  absl::StatusOr<Features> ReadPiece(const FeatureRange& piece) override {
    return engine_->ReadPiece(piece);
  }
  bool AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features) override {
    return engine_->AppendPiece(piece, std::move(features));
  }
  const DraftTrace& last_trace() const override { return engine_->last_trace(); }
  int live_sequences() const override { return engine_->live_sequences(); }

 protected:
  // Called after the other engine has drafted. `tokens` are the committed ones.
  virtual void Drafted(const Frontier& frontier, const std::vector<TokenId>& tokens,
                       Draft& draft) = 0;
  // Called before a sequence with drafts is closed.
  virtual void Closing(SequenceId sequence, const std::vector<TokenId>& tokens) = 0;

  DrafterInfo info_;

 private:
  const std::unique_ptr<DrafterEngine> engine_;
  absl::flat_hash_map<SequenceId, std::vector<TokenId>> tokens_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_REPLAY_WRAPPED_ENGINE_H_
