// SpecBlock: a drafter that predicts blocks of K tokens, from the root and again from any node of a
// tree (checkpoint format: the authors').
//
// Token t has K rows. Row k predicts token t + k. All rows of a token read the same condition and
// the same embedding (prefix broadcast) and differ by a learned query. Before each layer but the
// first, a row also reads the row before it (layer shift). A row sees all rows of earlier tokens
// and the rows before it in its block. The condition of a committed token comes from the target's
// features of the token before. That of a node is the state of the row that predicted the node
// (stateful_model.h), so a later block continues from an earlier one.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_SPECBLOCK_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_SPECBLOCK_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "drafter_service/draft/checked_drafter.h"
#include "drafter_service/draft/feature_pair.h"
#include "drafter_service/draft/rank_head.h"
#include "drafter_service/draft/stateful_model.h"
#include "engine/model/engine_options.h"

namespace bastion::drafter {

// The weights that only SpecBlock has.
struct SpecBlockWeights {
  nn::Matrix condition;  // [C, F] of features
  nn::Matrix fuse;       // [C, 3 C] of condition, embedding and query
  nn::Norm condition_norm, token_norm, query_norm;
  nn::Buffer queries;     // [K, C] of the activations' type
  nn::Buffer row_places;  // [R] Place k of a row: 0 … K - 1
  // Without prefix broadcast: a copy of the residual stream, with a row of zeros at the end; and
  // for each row the row that it keeps, its own or the one of zeros.
  nn::Buffer kept_rows;    // [R + 1, C] of the activations' type
  nn::Buffer kept_places;  // [R]
  RankHead rank_head;
  HostNorm final_norm;  // [C] of the states that the rank head reads
};

// Checks the checkpoints as SpecBlockModel::Load does, without reading the weights.
[[nodiscard]] absl::StatusOr<CheckedDrafter> CheckSpecBlock(const std::string& drafter_folder,
                                                            const std::string& target_folder,
                                                            const nn::EngineOptions& options);

class SpecBlockModel final : public StatefulModel {
 public:
  // Returns the errors of ReadFeaturePair, LoadDraftVocabulary and the checkpoint's files;
  // RESOURCE_EXHAUSTED if the device has too little memory.
  static absl::StatusOr<std::unique_ptr<SpecBlockModel>> Load(const std::string& drafter_folder,
                                                              const std::string& target_folder,
                                                              const nn::EngineOptions& options);

  int positions() const override { return config().drafter.specblock.positions; }
  bool depth_rotates() const override { return config().drafter.specblock.path_positions; }
  nn::ForwardCost Cost() const override;
  // [wanted rows, 4] Those of the rank head in the last Predict, for parity tests.
  [[nodiscard]] const std::vector<float>& rank_logits() const { return rank_logits_; }

 private:
  friend absl::StatusOr<CheckedDrafter> CheckSpecBlock(const std::string&, const std::string&,
                                                       const nn::EngineOptions&);

  // The matrices are empty until `plan` has run.
  static absl::StatusOr<std::unique_ptr<SpecBlockModel>> Read(const FeaturePair& pair,
                                                              const nn::EngineOptions& options,
                                                              nn::PackingPlan& plan);
  SpecBlockModel(StatefulWeights weights, SpecBlockWeights own)
      : StatefulModel(std::move(weights)), own_(std::move(own)) {}

  void Enter(const kernels::Rows& rows, bool from_features) override;
  // The normed residual stream becomes part `part` of all rows of a token. Without prefix
  // broadcast, of the first row; the part of the others is 0.
  void KeepShared(const kernels::Rows& rows, const nn::Norm& norm, int part);
  // Adds rank classes to the marginals.
  absl::Status Complete(int rows, absl::Span<const int> wanted, bool coupled,
                        std::vector<Marginals>& marginals) override;

  SpecBlockWeights own_;
  std::vector<float> rank_logits_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_SPECBLOCK_H_
