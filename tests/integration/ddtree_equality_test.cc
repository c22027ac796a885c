// Compares the whole cycle with the published procedure, on the demo pair (blocks of 8) and on a
// tiny random pair with blocks of 16, at budgets up to 1024. The verified trees must equal the
// trees of DDTree's algorithm (tests/support/ddtree_reference). The committed lengths, and so τ,
// must equal the lengths obtained by following the text of plain decoding down these trees.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/shared_learning.h"
#include "orchestrator/profile/verify_profile.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/borrow.h"
#include "tests/support/ddtree_reference.h"
#include "tests/support/forwarding_verifier.h"
#include "tests/support/golden_file.h"
#include "tests/support/random_marginals.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/prompts.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model";
constexpr int kTokens = 48;
constexpr int kMaxRows = 1025;  // The papers' largest budget, and the root.

// Records the drafter's marginals.
class RecordingDrafter final : public Drafter {
 public:
  explicit RecordingDrafter(Drafter* inner) : inner_(inner) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    auto result = inner_->Expand(frontiers);
    if (result.ok()) marginals.push_back(result->drafts.at(0).marginals.at(0));
    return result;
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

  std::vector<Marginals> marginals;  // One per draft.

 private:
  Drafter* inner_;
};

// Records the verified trees.
class RecordingVerifier final : public testing::ForwardingVerifier {
 public:
  using ForwardingVerifier::ForwardingVerifier;

  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    for (const VerifyItem& item : forest) trees.push_back(item.tree);
    return ForwardingVerifier::Verify(forest, prompts);
  }

  std::vector<DraftTree> trees;
};

struct DecodedRun {
  std::vector<TokenId> output;
  std::vector<CycleRecord> cycles;
  std::vector<Marginals> marginals;
  std::vector<DraftTree> trees;
};

// The number of tokens of `text`, from index `at` on, that lie on one path of `tree` below its
// root.
int MatchedLength(const DraftTree& tree, const std::vector<TokenId>& text, size_t at) {
  int matched = 0;
  NodeIndex node = 0;
  for (bool found = true; found && at + matched < text.size();) {
    found = false;
    for (NodeIndex child = 1; child < tree.rows() && !found; ++child) {
      if (tree.parent(child) != node || tree.token(child) != text[at + matched]) continue;
      node = child;
      found = true;
    }
    matched += found ? 1 : 0;
  }
  return matched;
}

// A loaded pair and prompts for it.
struct Pair {
  std::unique_ptr<LocalStages> stages;
  LatencyProfile table;
  std::vector<BenchPrompt> prompts;
};

Pair Load(const std::string& folder) {
  LocalOptions options;
  options.target_folder = folder + "/target";
  options.drafter_folder = folder + "/drafter";
  options.formats.weights = "fp32";
  options.device.threads = 2;
  options.memory.max_rows = kMaxRows;
  Pair pair;
  auto stages = LocalStages::Create(options);
  CHECK(stages.ok()) << stages.status();
  pair.stages = *std::move(stages);
  ProfileOptions quick;
  quick.time_limit = absl::ZeroDuration();
  quick.session = uint64_t{1} << 40;
  auto table = MeasureProfile(pair.stages->verifier(), Clock::Real(), quick);
  CHECK(table.ok()) << table.status();
  pair.table = *std::move(table);
  return pair;
}

Pair LoadDemoPair() {
  Pair pair = Load(kModels);
  pair.prompts = *LoadPrompts(kModels + "/prompts.jsonl", kModels + "/target");
  return pair;
}

// A golden pair with blocks of 16. Its context is too short for large trees, but position encodings
// have no end.
Pair LoadPairWithBlocksOf16() {
  const testing::TempFolder folder;
  std::filesystem::copy(testing::GoldenFolder("gqa4_tied_draft5"), folder.path(),
                        std::filesystem::copy_options::recursive);
  for (const char* model : {"target", "drafter"}) {
    const std::string path = folder.path() + "/" + model + "/config.json";
    auto config = nlohmann::json::parse(std::ifstream(path));
    config["max_position_embeddings"] = 2048;
    std::ofstream(path) << config.dump();
  }
  Pair pair = Load(folder.path());
  EXPECT_EQ(pair.stages->drafter().Info()->positions, 15);
  for (TokenId first : {11, 42}) {
    BenchPrompt& prompt = pair.prompts.emplace_back();
    prompt.id = absl::StrCat("random ", first);
    for (int i = 0; i < 24; ++i) prompt.tokens.push_back((first + 29 * i) % 211);
  }
  return pair;
}

struct Case {
  const char* pair;
  int budget;
  size_t prompts;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) {
    return out << one.pair << " pair, " << one.budget << " nodes";
  }
};

class DdtreeEqualityTest : public ::testing::TestWithParam<Case> {
 protected:
  static void TearDownTestSuite() { pairs_.clear(); }
  static Pair& LoadedPair() {
    const std::string name = GetParam().pair;
    const auto found = pairs_.find(name);
    if (found != pairs_.end()) return found->second;
    return pairs_[name] = name == "demo" ? LoadDemoPair() : LoadPairWithBlocksOf16();
  }

  static DecodedRun Decode(const std::string& policy, const BenchPrompt& prompt,
                           float temperature) {
    static uint64_t session = 1;
    Pair& pair = LoadedPair();
    RecordingDrafter drafter(&pair.stages->drafter());
    RecordingVerifier verifier(&pair.stages->verifier());
    const TargetInfo target = *verifier.Info();
    CostModel costs = *CostModel::Fit(target, pair.table);
    SharedLearning memory;
    DecodeCycle cycle(target, &drafter, &verifier, &costs);
    DecodeRequest request;
    request.id = {session++, 0};
    request.prompt = prompt.tokens;
    request.sampling = {{.temperature = temperature, .seed = 3}};
    request.max_tokens = kTokens;
    DecodeSequence sequence(request,
                            Policy::Parse(policy)->NewRequest(temperature == 0, &costs, &memory));
    cycle.Open(sequence);
    while (cycle.Prefill(sequence, 4096)) {
    }
    while (!sequence.done()) EXPECT_TRUE(cycle.Step({&sequence}).ok());
    EXPECT_TRUE(sequence.status().ok()) << sequence.status();
    cycle.Close(sequence, drafter);
    return {sequence.output(), sequence.cycles(), drafter.marginals, verifier.trees};
  }

 private:
  static std::map<std::string, Pair> pairs_;
};

std::map<std::string, Pair> DdtreeEqualityTest::pairs_;

TEST_P(DdtreeEqualityTest, TreesAndCommittedLengthsEqualTheReference) {
  const int budget = GetParam().budget;
  const std::vector<BenchPrompt>& prompts = LoadedPair().prompts;
  ASSERT_GE(prompts.size(), GetParam().prompts);
  bool full = false;  // A tree had all nodes of the budget.
  for (const float temperature : {0.0f, 1.0f}) {
    for (const BenchPrompt& prompt : absl::MakeConstSpan(prompts).first(GetParam().prompts)) {
      const std::vector<TokenId> plain = Decode("ar", prompt, temperature).output;
      const DecodedRun run = Decode(absl::StrCat("fixed:", budget), prompt, temperature);
      ASSERT_EQ(run.output, plain);
      size_t emitted = 0;
      for (size_t i = 0; i < run.cycles.size(); ++i) {
        const int left = kTokens - static_cast<int>(emitted);
        if (left <= 1) break;  // The last token needs no draft.
        ASSERT_LT(i, run.marginals.size());
        Marginals marginals = run.marginals[i];
        // Deeper nodes could not be emitted, so the reference gets the same depth limit.
        marginals.positions = std::min(marginals.positions, left - 1);
        marginals.tokens.resize(size_t(marginals.positions) * marginals.candidates);
        marginals.log_probs.resize(marginals.tokens.size());
        const DraftTree expected =
            testing::DdtreeReference(run.trees[i].token(0), marginals, budget);
        ASSERT_EQ(run.trees[i].tokens(), expected.tokens()) << prompt.id << " cycle " << i;
        ASSERT_EQ(run.trees[i].parents(), expected.parents()) << prompt.id << " cycle " << i;
        full = full || run.trees[i].nodes() == budget;
        const int matched = MatchedLength(expected, plain, emitted) + 1;
        EXPECT_EQ(run.cycles[i].committed_length, std::min(matched, left));
        emitted += run.cycles[i].committed_length;
      }
    }
  }
  EXPECT_TRUE(full);
}

INSTANTIATE_TEST_SUITE_P(Pairs, DdtreeEqualityTest,
                         ::testing::Values(Case{"demo", 4, 4}, Case{"demo", 16, 4},
                                           Case{"demo", 64, 4}, Case{"demo", 256, 1},
                                           Case{"demo", 1024, 1}, Case{"block 16", 64, 2},
                                           Case{"block 16", 256, 2}, Case{"block 16", 1024, 2}));

// Blocks of 16 and vocabularies of thousands, as the published drafters have, without their
// weights.
TEST(DdtreeTreesTest, LargeTreesFromBlocksOf16EqualTheReference) {
  using ::bastion::testing::EdgeCase;
  std::mt19937 random(4);
  for (const int budget : {128, 256, 512, 1024}) {
    for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
      for (const double sharpness : {1.0, 64.0}) {
        const Marginals marginals =
            testing::RandomMarginals(random, /*positions=*/15, budget, edge_case, sharpness);
        const DraftTree tree =
            GrowBestFirst(7, testing::Borrow(DraftCandidates(marginals)), budget);
        const DraftTree expected = testing::DdtreeReference(7, marginals, budget);
        ASSERT_EQ(tree.tokens(), expected.tokens()) << budget << ", sharpness " << sharpness;
        ASSERT_EQ(tree.parents(), expected.parents()) << budget << ", sharpness " << sharpness;
      }
    }
  }
}

}  // namespace
}  // namespace bastion
