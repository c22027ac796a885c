// ParityEngine: a golden case (make_goldens.py) with its target and, if it has one, its DFlash
// drafter, loaded in fp32 on one backend.
#ifndef BASTION_TESTS_PARITY_PARITY_ENGINE_H_
#define BASTION_TESTS_PARITY_PARITY_ENGINE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/stages/draft_tree.h"
#include "drafter_service/draft/dflash.h"
#include "engine/host/host_device.h"
#include "tests/support/golden_file.h"
#include "tests/support/model_runner.h"

namespace bastion::testing {

inline constexpr float kParityTolerance = 1e-4f;

inline void ExpectParity(const float* actual, const std::vector<float>& expected,
                         const char* what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], kParityTolerance) << what << " at " << i;
  }
}

class ParityEngine {
 public:
  ParityEngine(const std::string& name, const kernels::Backend& backend)
      : golden_(GoldenFolder(name) + "/golden.safetensors"),
        tokens_(golden_.Integers("tokens")),
        feature_layers_(GoldenFeatureLayers(name)) {
    const std::string folder = GoldenFolder(name);
    options_.formats = nn::FormatsFor(WeightFormat::kF32);
    options_.device = nn::MakeHostDevice(backend, pool_);
    options_.kv_tokens = 4096;
    auto target = ModelRunner::Load(folder + "/target", options_, feature_layers_);
    CHECK(target.ok()) << target.status();
    target_ = *std::move(target);
    const std::vector<std::string> pairs = GoldenPairs();
    if (std::find(pairs.begin(), pairs.end(), name) == pairs.end()) return;
    auto drafter = drafter::DflashModel::Load(folder + "/drafter", folder + "/target", options_);
    CHECK(drafter.ok()) << drafter.status();
    drafter_ = *std::move(drafter);
  }

  [[nodiscard]] const GoldenFile& golden() const { return golden_; }
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }
  [[nodiscard]] ModelRunner& target() { return *target_; }
  [[nodiscard]] nn::Device& device() const { return *options_.device; }
  [[nodiscard]] int layers() const { return target_->config().dims.layers; }
  [[nodiscard]] int vocabulary() const { return target_->config().dims.vocabulary; }

  // Commits `tokens` to `table` in chunks of `chunk` rows. Returns the logits of the last chunk.
  std::vector<float> Prefill(const std::vector<TokenId>& tokens, size_t chunk,
                             nn::PageTable& table) {
    EXPECT_TRUE(target_->cache().Reserve(table, static_cast<int>(tokens.size())).ok());
    std::vector<float> logits;
    for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
      const size_t end = std::min(tokens.size(), begin + chunk);
      nn::RowBatch batch;
      batch.AddRun({&table, static_cast<Position>(begin), kernels::RowMask::kCausal},
                   {tokens.begin() + begin, tokens.begin() + end});
      logits = target_->Run(batch);
    }
    return logits;
  }

  [[nodiscard]] DraftTree tree() const {
    const std::vector<TokenId> tokens = golden_.Integers("tree_tokens");
    const std::vector<TokenId> parents = golden_.Integers("tree_parents");
    DraftTree tree(tokens[0]);
    for (size_t i = 1; i < tokens.size(); ++i) {
      tree.Add(NodeIndex::Of(parents[i]), tokens[i], -1.0f);
    }
    return tree;
  }

  // Runs one forward of the tree after the golden tokens. Returns logits [rows, V].
  std::vector<float> TreeLogits(const DraftTree& tree, nn::PageTable& table) {
    const auto cached = static_cast<Position>(tokens_.size());
    EXPECT_TRUE(target_->cache().Reserve(table, cached + tree.rows()).ok());
    std::vector<int> depths;
    for (NodeIndex i = 0; i < tree.rows(); ++i) depths.push_back(tree.depth(i));
    nn::RowBatch batch;
    batch.AddTree({&table, cached}, tree.tokens(), depths, tree.AncestorBits());
    return target_->Run(batch);
  }

  // For each round of `draft_context`: appends the round's feature rows to the context, drafts, and
  // calls check(round, logits of the block). REQUIRES: the case has a drafter.
  template <typename Check>
  void ForEachDraft(Check check) {
    const std::vector<float> features = golden_.Floats("features");
    const std::vector<TokenId> added = golden_.Integers("draft_context");
    nn::PageTable table;
    Position context = 0;
    for (size_t round = 0; round < added.size(); ++round) {
      Features rows = {drafter_->feature_width(), DType::kF32, {}};
      rows.bytes.assign(reinterpret_cast<const char*>(features.data()) + context * rows.row_bytes(),
                        added[round] * rows.row_bytes());
      ASSERT_TRUE(drafter_->AppendContext({{&table, context, rows}}).ok());
      context += added[round];
      const TokenId bonus = golden_.Integers("bonus_" + std::to_string(round))[0];
      const auto drafts = drafter_->Draft({{&table, context, bonus}}, 16);
      ASSERT_TRUE(drafts.ok()) << drafts.status();
      EXPECT_TRUE((*drafts)[0].Validate(vocabulary()).ok());
      const auto logits = drafter_->ReadLogits();
      ASSERT_TRUE(logits.ok()) << logits.status();
      check(std::to_string(round), logits->data());
    }
  }

 private:
  GoldenFile golden_;
  std::vector<TokenId> tokens_;
  std::vector<int> feature_layers_;
  kernels::ThreadPool pool_{2};
  nn::EngineOptions options_;
  std::unique_ptr<ModelRunner> target_;
  std::unique_ptr<drafter::DflashModel> drafter_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_PARITY_PARITY_ENGINE_H_
