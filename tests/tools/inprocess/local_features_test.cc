// A target and a drafter in one process and on one GPU, or on the emulator in a build without CUDA.
#include "tools/inprocess/local_features.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "drafter_service/engine/drafter_engine.h"
#include "engine/cuda/cuda_device.h"
#include "engine/program/local_device.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/support/golden_file.h"

namespace bastion {
namespace {

// Counts the rows that stay on the device and those that do not.
class CountingFeatures final : public FeatureSource {
 public:
  explicit CountingFeatures(FeatureSource* source) : source_(source) {}
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration timeout) override {
    auto features = source_->Read(range, timeout);
    if (features.ok()) (features->on_device() ? on_device : as_bytes) += features->rows();
    return features;
  }

  int on_device = 0, as_bytes = 0;

 private:
  FeatureSource* const source_;
};

struct Outcome {
  std::vector<Draft> drafts;
  int on_device = 0, as_bytes = 0;
};

class LocalFeaturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto gpu = kernels::cuda::OpenDevice(0);
    if (!gpu.ok()) GTEST_SKIP() << "no GPU: " << gpu.status().message();
    tokens_ = testing::GoldenFile(folder_ + "/golden.safetensors").Integers("tokens");
  }

  [[nodiscard]] nn::EngineOptions OnGpu() const {
    return {nn::FormatsFor(WeightFormat::kF32), *nn::OpenCudaDevice({}, local_.device->host()),
            /*kv_tokens=*/2048};
  }

  // Four cycles of plain decoding of two requests, with a ring of this size. A draft follows the
  // prompt and each cycle.
  Outcome Run(int64_t ring_bytes) {
    verifier::VerifierOptions target;
    target.target_folder = folder_ + "/target";
    target.engine = OnGpu();
    target.engine.share_bytes = ring_bytes;
    target.max_rows = 64;
    const auto verifier = *verifier::VerifierEngine::Create(target);
    LocalFeatures local(verifier.get());
    CountingFeatures features(&local);
    drafter::DrafterOptions options;
    options.drafter_folder = folder_ + "/drafter";
    options.target_folder = folder_ + "/target";
    options.engine = OnGpu();
    const auto drafter = *drafter::DrafterEngine::Create(options, &features);
    EXPECT_TRUE(local.ReadRing(*drafter->device_reader()).ok());
    EXPECT_TRUE(verifier->SetFeatureLayers(drafter->feature_layers()).ok());
    Outcome outcome;
    std::vector<TokenId> roots = {tokens_.back(), 7};
    Position committed = Prefill(*verifier);
    for (int cycle = 0; cycle < 4; ++cycle) {
      Forest forest;
      std::vector<Frontier> frontiers;
      for (uint64_t s = 0; s < roots.size(); ++s) {
        forest.push_back({{s + 1, 0}, committed, DraftTree(roots[s])});
        Frontier frontier;
        frontier.sequence = {s + 1, 0};
        frontier.committed = committed;
        frontier.root = roots[s];
        frontier.candidates = 4;
        frontiers.push_back(frontier);
      }
      const auto drafts = drafter->Expand(frontiers);
      EXPECT_TRUE(drafts.ok()) << drafts.status();
      outcome.drafts.insert(outcome.drafts.end(), drafts->begin(), drafts->end());
      const auto verified = verifier->Verify(forest, {});
      EXPECT_TRUE(verified.ok()) << verified.status();
      for (size_t s = 0; s < roots.size(); ++s) roots[s] = verified->outcomes[s].acceptance.next;
      ++committed;
    }
    outcome.on_device = features.on_device;
    outcome.as_bytes = features.as_bytes;
    return outcome;
  }

  // Commits the prompt for both requests. Returns its number of tokens.
  Position Prefill(verifier::VerifierEngine& verifier) {
    const std::vector<TokenId> prompt(tokens_.begin(), tokens_.end() - 1);
    for (uint64_t session = 1; session <= 2; ++session) {
      EXPECT_TRUE(verifier.Open({session, 0}, {}).ok());
      const auto done = verifier.Verify({}, {{{session, 0}, 0, prompt}});
      EXPECT_TRUE(done.ok()) << done.status();
    }
    return static_cast<Position>(prompt.size());
  }

  const std::string folder_ = testing::GoldenFolder("gqa2_untied_draft2");
  const nn::LocalDevice local_ = *nn::OpenLocalDevice(1);
  std::vector<TokenId> tokens_;
};

TEST_F(LocalFeaturesTest, StayOnTheDeviceAndGiveTheSameDrafts) {
  const Outcome bytes = Run(/*ring_bytes=*/0), ring = Run(1 << 20);
  EXPECT_EQ(bytes.on_device, 0);
  EXPECT_EQ(ring.as_bytes, 0);
  EXPECT_EQ(ring.on_device, bytes.as_bytes);
  EXPECT_GT(ring.on_device, static_cast<int>(tokens_.size()));
  ASSERT_EQ(ring.drafts.size(), 8u);
  EXPECT_FALSE(ring.drafts[0].marginals.at(0).empty());
  EXPECT_EQ(ring.drafts, bytes.drafts);
}

TEST_F(LocalFeaturesTest, RowsThatTheRingCannotHoldAreReadAsBytes) {
  constexpr int64_t kBytesOfARow = 3 * 32 * 4;
  const Outcome bytes = Run(/*ring_bytes=*/0), ring = Run(6 * kBytesOfARow);
  EXPECT_GT(ring.as_bytes, 0);
  EXPECT_GT(ring.on_device, 0);
  EXPECT_EQ(ring.drafts, bytes.drafts);
}

}  // namespace
}  // namespace bastion
