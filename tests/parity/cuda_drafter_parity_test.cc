// Compares drafters on a GPU with the same drafters on the CPU, in fp32, on golden cases
// (make_goldens.py). A build without CUDA uses the emulator.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "common/base/status.h"
#include "drafter_service/draft/dflash.h"
#include "drafter_service/engine/drafter_engine.h"
#include "kernels/ops/types.h"
#include "tests/parity/cuda_parity_fixture.h"

namespace bastion {
namespace {

using testing::ExpectNear;
using CudaDraftParityTest = testing::CudaParityFixture;

TEST_P(CudaDraftParityTest, DraftsMatchTheCpu) {
  const std::string drafter = folder_ + "/drafter", target = folder_ + "/target";
  auto cpu = drafter::DflashModel::Load(drafter, target, options_);
  auto gpu = drafter::DflashModel::Load(drafter, target, OnGpu());
  ASSERT_TRUE(cpu.ok() && gpu.ok()) << cpu.status() << gpu.status();
  const int width = (*cpu)->feature_width();
  nn::PageTable tables[2][2];
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Position cached[2] = {0, 0};
  for (int round = 0; round < 4; ++round) {
    std::vector<drafter::ContextItem> items;
    for (int s = 0; s < 2; ++s) {
      Features features;
      features.width = width;
      std::vector<float> values(size_t(3 + 5 * s + round) * width);
      for (float& value : values) value = normal(random);
      features.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
      items.push_back({nullptr, cached[s], std::move(features)});
    }
    std::vector<drafter::BlockItem> blocks;
    for (int s = 0; s < 2; ++s) {
      const Position after = cached[s] + items[s].features.rows();
      blocks.push_back({nullptr, after, static_cast<TokenId>(random() % 100)});
      if (s == 1) blocks.back().coupling = ChoiceParams{0.9f, 5};
    }
    std::vector<Marginals> drafts[2];
    for (int side = 0; side < 2; ++side) {
      drafter::DraftModel& model = side == 0 ? **cpu : **gpu;
      for (int s = 0; s < 2; ++s) {
        items[s].table = &tables[side][s];
        blocks[s].table = &tables[side][s];
      }
      ASSERT_TRUE(model.AppendContext(items).ok());
      auto draft = model.Draft(blocks, /*candidates=*/16);
      ASSERT_TRUE(draft.ok()) << draft.status();
      drafts[side] = *std::move(draft);
    }
    for (int s = 0; s < 2; ++s) {
      cached[s] = blocks[s].cached;
      ExpectNear(drafts[1][s].log_probs, drafts[0][s].log_probs, 1e-3);
      EXPECT_EQ(drafts[1][s].tokens[0], drafts[0][s].tokens[0]) << "sequence " << s;
    }
  }
}

// A block after seven random rows of context, with the drafter in `weights`.
absl::StatusOr<Marginals> FirstDraft(const std::string& folder, nn::EngineOptions options,
                                     WeightFormat weights) {
  options.formats = nn::FormatsFor(weights);
  ASSIGN_OR_RETURN(auto model,
                   drafter::DflashModel::Load(folder + "/drafter", folder + "/target", options));
  Features features;
  features.width = model->feature_width();
  features.type = DType::kBF16;
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(size_t{7} * features.width);
  for (uint16_t& value : values) value = kernels::FloatToBf16(normal(random));
  features.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 2);
  nn::PageTable table;
  RETURN_IF_ERROR(model->AppendContext({{&table, 0, features}}));
  ASSIGN_OR_RETURN(auto drafts, model->Draft({{&table, 7, 3}}, /*candidates=*/16));
  return std::move(drafts[0]);
}

TEST_P(CudaDraftParityTest, Int8DraftsFromADraftVocabularyAreCloseToBf16) {
  std::vector<TokenId> even;
  for (TokenId token = 0; token < 100; token += 2) even.push_back(token);
  options_.head_tokens = std::make_shared<const std::vector<TokenId>>(even);
  const auto expected = FirstDraft(folder_, OnGpu(), WeightFormat::kBF16);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = FirstDraft(folder_, OnGpu(), WeightFormat::kInt8);
  if (absl::IsInvalidArgument(actual.status())) GTEST_SKIP() << actual.status();
  ASSERT_TRUE(actual.ok()) << actual.status();
  ExpectNear(actual->log_probs, expected->log_probs, 0.06);
  for (const TokenId token : actual->tokens) EXPECT_EQ(token % 2, 0);
}

// An autoregressive drafter: a golden target drafts for itself.
class CudaAutoregressiveParityTest : public testing::CudaParityFixture {
 protected:
  std::unique_ptr<drafter::DrafterEngine> Drafter(const nn::EngineOptions& engine) {
    drafter::DrafterOptions options;
    options.drafter_folder = options.target_folder = folder_ + "/target";
    options.engine = engine;
    options.max_sequences = 4;
    auto drafter = drafter::DrafterEngine::Create(options, nullptr);
    EXPECT_TRUE(drafter.ok()) << drafter.status();
    return *std::move(drafter);
  }

  // The marginals after each of `paths` of two sequences; the second one is coupled.
  static std::vector<Marginals> Expand(drafter::DrafterEngine& drafter,
                                       const std::vector<TokenId>& text,
                                       const std::vector<std::vector<TokenId>>& paths) {
    std::vector<Frontier> frontiers;
    for (uint64_t s = 0; s < 2; ++s) {
      Frontier frontier;
      frontier.sequence = {s + 1, 0};
      frontier.committed = static_cast<Position>(text.size()) - 1 - static_cast<Position>(s);
      frontier.root = text[frontier.committed];
      frontier.new_tokens.assign(text.begin(), text.begin() + frontier.committed);
      frontier.paths = paths;
      frontier.candidates = 4;
      frontier.coupled = s == 1;
      frontier.sampling = {0.9f, 5};
      frontiers.push_back(frontier);
    }
    const auto drafts = drafter.Expand(frontiers);
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    std::vector<Marginals> all;
    for (const Draft& draft : *drafts) {
      EXPECT_TRUE(draft.status.ok()) << draft.status;
      all.insert(all.end(), draft.marginals.begin(), draft.marginals.end());
    }
    return all;
  }
};

// The nodes of a round see the nodes of the rounds before, which are in the cache.
TEST_P(CudaAutoregressiveParityTest, ThreeRoundsMatchTheCpu) {
  const auto cpu = Drafter(options_), gpu = Drafter(OnGpu());
  std::vector<std::vector<TokenId>> paths = {{}};
  for (int round = 0; round < 3; ++round) {
    const std::vector<Marginals> expected = Expand(*cpu, tokens_, paths);
    const std::vector<Marginals> actual = Expand(*gpu, tokens_, paths);
    ASSERT_EQ(actual.size(), expected.size());
    ASSERT_EQ(actual.size(), 2 * paths.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_FALSE(expected[i].empty());
      EXPECT_EQ(actual[i].tokens, expected[i].tokens) << "round " << round << ", node " << i;
      ExpectNear(actual[i].log_probs, expected[i].log_probs, 1e-3);
    }
    // The two best children of each node, the last node first: rows are not in order of depth.
    std::vector<std::vector<TokenId>> next;
    for (size_t i = paths.size(); i-- > 0;) {
      for (int c = 0; c < 2; ++c) {
        next.push_back(paths[i]);
        next.back().push_back(expected[i].tokens[c]);
      }
    }
    paths = std::move(next);
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, CudaAutoregressiveParityTest,
                         ::testing::Values("neox_parallel", "llama_scaled_rope", "mistral_window",
                                           "sliding_window"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Goldens, CudaDraftParityTest, ::testing::ValuesIn(testing::GoldenPairs()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
