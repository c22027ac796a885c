// Compares SpecBlock drafters with a simple implementation (specblock_goldens.py), in fp32 on tiny
// random checkpoints: blocks from the root and from nodes, over three cycles, on the CPU and on a
// GPU.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "drafter_service/draft/specblock.h"
#include "tests/parity/stateful_parity_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

// The blocks of one golden draft: the root's, and later ones.
struct GoldenBlocks {
  Frontier frontier;
  std::vector<float> logits;        // [K, D] of the root's block
  std::vector<float> ranks;         // [K, 4], or empty
  std::vector<TokenId> parents;     // [S] The block that a later one starts from. 0: the root's.
  std::vector<TokenId> places;      // [S] The row of that block that predicted the token.
  std::vector<TokenId> tokens;      // [S]
  std::vector<float> start_logits;  // [S, K, D]
  std::vector<float> start_ranks;   // [S, K, 4], or empty
};

class SpecBlockParityTest : public testing::StatefulParityFixture {
 protected:
  static constexpr int kClasses = 4;

  [[nodiscard]] std::vector<GoldenBlocks> Drafts() const {
    std::vector<GoldenBlocks> drafts;
    for (const Frontier& frontier : Frontiers()) {
      const std::string round = "_" + std::to_string(drafts.size());
      GoldenBlocks& draft = drafts.emplace_back();
      draft.frontier = frontier;
      draft.logits = golden_.Floats("block_logits" + round);
      draft.parents = golden_.Integers("start_parent" + round);
      draft.places = golden_.Integers("start_row" + round);
      draft.tokens = golden_.Integers("start_token" + round);
      draft.start_logits = golden_.Floats("start_logits" + round);
      if (!golden_.Has("rank_logits" + round)) continue;
      draft.ranks = golden_.Floats("rank_logits" + round);
      draft.start_ranks = golden_.Floats("start_ranks" + round);
    }
    return drafts;
  }

  // Compares a block with its logits [K, D] and its rank logits [K, 4], which may be null.
  void ExpectBlock(const Marginals& block, const float* logits, const float* ranks) const {
    ASSERT_EQ(block.positions, engine_->info().positions);
    ASSERT_EQ(block.buckets.empty(), ranks == nullptr);
    for (int k = 0; k < block.positions; ++k) {
      ExpectReference(block, k, logits + k * ids_.size());
      if (ranks == nullptr) continue;
      const float* const row = ranks + static_cast<ptrdiff_t>(k) * kClasses;
      EXPECT_EQ(block.buckets[k], std::max_element(row, row + kClasses) - row) << "row " << k;
    }
  }

  // The blocks from the root's to that of start `last`, each started by the one before.
  // 0 is the root's block, and start + 1 a later one.
  static std::vector<int> Chain(const GoldenBlocks& draft, int last) {
    std::vector<int> chain;
    for (int block = last + 1; block > 0; block = draft.parents[block - 1]) {
      chain.insert(chain.begin(), block);
    }
    chain.insert(chain.begin(), 0);
    return chain;
  }

  struct Expanded {
    std::vector<std::vector<TokenId>> paths;
    std::vector<Marginals> blocks;
  };

  // Begins the cycle and expands the chain to start `last`, one block after the other. A node that
  // is expanded predicts what follows it, so other starts would change the chain.
  Expanded ExpandChain(const GoldenBlocks& draft, int last) {
    Expanded expanded;
    for (const int block : Chain(draft, last)) {
      std::vector<TokenId> path;
      if (block > 0) {
        path = expanded.paths.back();
        for (int k = 0; k < draft.places[block - 1]; ++k) {
          path.push_back(expanded.blocks.back().token(k, 0));
        }
        path.push_back(draft.tokens[block - 1]);
      }
      expanded.blocks.push_back(Expand(draft.frontier, {path})[0]);
      expanded.paths.push_back(std::move(path));
    }
    return expanded;
  }

  void ExpectAllBlocks() {
    for (const GoldenBlocks& draft : Drafts()) {
      const size_t share = draft.logits.size();
      const bool ranks = !draft.ranks.empty();
      for (size_t start = 0; start < draft.tokens.size(); ++start) {
        SCOPED_TRACE(start);
        const Expanded expanded = ExpandChain(draft, static_cast<int>(start));
        ExpectBlock(expanded.blocks[0], draft.logits.data(), ranks ? draft.ranks.data() : nullptr);
        ExpectBlock(expanded.blocks.back(), draft.start_logits.data() + start * share,
                    ranks ? draft.start_ranks.data() + start * draft.ranks.size() : nullptr);
      }
    }
  }
};

TEST_P(SpecBlockParityTest, BlocksMatchTheReferenceOnTheCpu) {
  OpenOnCpu();
  ExpectAllBlocks();
}

TEST_P(SpecBlockParityTest, BlocksMatchTheReferenceOnAGpu) {
  OpenOnGpu();
  if (engine_ != nullptr) ExpectAllBlocks();
}

TEST_P(SpecBlockParityTest, RankLogitsMatchTheReference) {
  nn::EngineOptions options = {nn::FormatsFor(WeightFormat::kF32), local_.device,
                               /*kv_tokens=*/1024};
  options.max_rows = 256;
  const auto model =
      drafter::SpecBlockModel::Load(folder_ + "/drafter", folder_ + "/target", options);
  ASSERT_TRUE(model.ok()) << model.status();
  const GoldenBlocks draft = Drafts()[0];
  // The rows of all committed tokens but the first, and of the root.
  const int positions = (*model)->positions(), nodes = draft.frontier.committed;
  drafter::NodeRows rows;
  nn::PageTable table;
  ASSERT_TRUE((*model)->pages().Reserve(table, nodes * positions).ok());
  std::vector<TokenId> tokens;
  std::vector<int> wanted;
  for (int node = 1; node <= nodes; ++node) {
    const TokenId token = node < nodes ? tokens_[node] : draft.frontier.root;
    tokens.insert(tokens.end(), positions, token);
  }
  for (int k = 0; k < positions; ++k) wanted.push_back((nodes - 1) * positions + k);
  rows.batch.AddRun({.table = &table, .position = 0, .rows_per_token = positions}, tokens);
  const std::vector<float> features = golden_.Floats("features");
  Features read;
  read.width = static_cast<int>(features.size() / tokens_.size());
  read.bytes.assign(reinterpret_cast<const char*>(features.data()), nodes * read.row_bytes());
  rows.features.push_back({std::move(read), positions});
  const std::vector<kernels::ChoiceRule> rules(wanted.size());
  ASSERT_TRUE((*model)->Predict(rows, wanted, rules, /*candidates=*/1).ok());
  const std::vector<float>& actual = (*model)->rank_logits();
  ASSERT_EQ(actual.size(), draft.ranks.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], draft.ranks[i], kReferenceTolerance) << "at " << i;
  }
}

TEST_P(SpecBlockParityTest, AChainOfBlocksInOneRoundHasTheSameBitsAsOneByOne) {
  OpenOnCpu();
  const GoldenBlocks draft = Drafts()[0];
  const Expanded one_by_one = ExpandChain(draft, static_cast<int>(draft.tokens.size()) - 1);
  ASSERT_EQ(one_by_one.blocks.size(), 3u);
  // The root is drafted again. Later blocks depend on tokens that this round predicts.
  EXPECT_EQ(Expand(draft.frontier, one_by_one.paths), one_by_one.blocks);
}

// For ablations; trainable_specblock_test.cc compares such a drafter with its trainer.
TEST_P(SpecBlockParityTest, WithoutPrefixBroadcastAGpuDraftsAsTheCpu) {
  const testing::TempFolder changed;
  std::filesystem::copy(folder_ + "/drafter", changed.path());
  std::ifstream file(folder_ + "/drafter/config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  config["prefix_broadcast"] = false;
  changed.Write("config.json", config.dump());
  const Frontier frontier = Drafts()[0].frontier;
  Open(local_.device, changed.path());
  const Marginals cpu = Expand(frontier, {{}})[0];
  OpenOnCpu();
  EXPECT_NE(Expand(frontier, {{}})[0], cpu);
  OpenOnGpu(changed.path());
  if (engine_ == nullptr) return;
  const Marginals gpu = Expand(frontier, {{}})[0];
  ASSERT_EQ(gpu.tokens.size(), cpu.tokens.size());
  for (size_t i = 0; i < cpu.tokens.size(); ++i) {
    EXPECT_NEAR(gpu.log_probs[i], cpu.log_probs[i], kReferenceTolerance) << "at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, SpecBlockParityTest,
                         ::testing::ValuesIn(testing::SpecBlockGoldens()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
