// A target without memory for features fails no sequence: the drafter gets an error, and the engine
// goes on without features.
#include <memory>
#include <utility>
#include <vector>

#include "common/nn/local_device.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "tests/verifier_service/engine/wrapped_target.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::verifier {
namespace {

constexpr SequenceId kSequence = {1, 0};

// Has no memory for the features of a second layer. As in any target, forwards then fail until
// layers are set.
class SmallTarget final : public WrappedTarget {
 public:
  using WrappedTarget::WrappedTarget;

  absl::Status SetFeatureLayers(const std::vector<int>& layers) override {
    usable_ = layers.size() < 2;
    if (!usable_) return absl::ResourceExhaustedError("the memory is full");
    return WrappedTarget::SetFeatureLayers(layers);
  }
  absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> Verify(const nn::RowBatch& batch,
                                                                 absl::Span<const TreeRows> trees,
                                                                 TimingTrace& trace) override {
    if (!usable_) return absl::FailedPreconditionError("no layers are set");
    return WrappedTarget::Verify(batch, trees, trace);
  }

 private:
  bool usable_ = true;
};

class FeatureLayersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = nn::OpenLocalDevice(1);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    VerifierOptions options;
    options.target_folder = testing::GoldenFolder("gqa2_untied_draft2") + "/target";
    options.engine = {DType::kF32, device_.device, /*kv_tokens=*/1024};
    options.load_target = &LoadWrapped<SmallTarget>;
    auto engine = VerifierEngine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  // Prefills a new sequence. Returns the bytes of its features.
  int64_t PrefilledFeatures() {
    EXPECT_TRUE(engine_->Open(kSequence, {}).ok());
    const auto trace = engine_->Prefill({kSequence, 0, {3, 141, 59}});
    EXPECT_TRUE(trace.ok()) << trace.status();
    const int64_t bytes = engine_->features().bytes();
    engine_->Close(kSequence);
    return bytes;
  }

  nn::LocalDevice device_;
  std::unique_ptr<VerifierEngine> engine_;
};

TEST_F(FeatureLayersTest, LayersThatDoNotFitLeaveTheEngineWithoutFeatures) {
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  EXPECT_GT(PrefilledFeatures(), 0);
  for (int attempt = 0; attempt < 2; ++attempt) {  // A drafter connects again and again.
    const absl::Status refused = engine_->SetFeatureLayers({0, 1});
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_EQ(PrefilledFeatures(), 0);
  }
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  EXPECT_GT(PrefilledFeatures(), 0);
}

}  // namespace
}  // namespace bastion::verifier
