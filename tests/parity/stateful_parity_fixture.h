// The fixture of tests that compare drafters with a simple implementation, through the drafter's
// engine, on a golden case with its features.
#ifndef BASTION_TESTS_PARITY_STATEFUL_PARITY_FIXTURE_H_
#define BASTION_TESTS_PARITY_STATEFUL_PARITY_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "drafter_service/engine/drafter_engine.h"
#include "engine/cuda/cuda_device.h"
#include "engine/program/local_device.h"
#include "tests/support/golden_file.h"

namespace bastion::testing {

// The features of a golden. Like a verifier, gives each row once.
class GoldenFeatures final : public FeatureSource {
 public:
  GoldenFeatures(std::vector<float> values, int width)
      : values_(std::move(values)), width_(width) {}

  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    if (range.first < next_) return absl::OutOfRangeError("the rows were discarded");
    next_ = range.first + range.count;
    Features features;
    features.width = width_;
    const char* const begin = reinterpret_cast<const char*>(values_.data());
    features.bytes.assign(begin + range.first * features.row_bytes(),
                          range.count * features.row_bytes());
    return features;
  }

 private:
  const std::vector<float> values_;
  const int width_;
  Position next_ = 0;
};

class StatefulParityFixture : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr float kReferenceTolerance = 1e-4f;
  static constexpr int kMaxVocabulary = 200;

  StatefulParityFixture()
      : folder_(GoldenFolder(GetParam())),
        golden_(folder_ + "/golden.safetensors"),
        tokens_(golden_.Integers("tokens")),
        ids_(golden_.Integers("draft_ids")) {}

  void Open(std::shared_ptr<nn::Device> device) { Open(std::move(device), folder_ + "/drafter"); }
  void Open(std::shared_ptr<nn::Device> device, const std::string& drafter_folder) {
    const std::vector<float> features = golden_.Floats("features");
    features_ = std::make_unique<GoldenFeatures>(
        features, static_cast<int>(features.size() / tokens_.size()));
    drafter::DrafterOptions options;
    options.drafter_folder = drafter_folder;
    options.target_folder = folder_ + "/target";
    options.engine = {nn::FormatsFor(WeightFormat::kF32), std::move(device), /*kv_tokens=*/1024};
    options.engine.max_rows = 64;
    options.max_sequences = 2;
    auto engine = drafter::DrafterEngine::Create(options, features_.get());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  void OpenOnCpu() { Open(local_.device); }
  // On the emulator in a build without CUDA. Skips the test if there is no GPU.
  void OpenOnGpu() { OpenOnGpu(folder_ + "/drafter"); }
  void OpenOnGpu(const std::string& drafter_folder) {
    engine_ = nullptr;  // A test that is skipped must not go on with an earlier engine.
    auto device = nn::OpenCudaDevice({}, local_.device->host());
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    Open(*std::move(device), drafter_folder);
  }

  // The frontiers of the golden's drafts, without paths.
  [[nodiscard]] std::vector<Frontier> Frontiers() const {
    std::vector<Frontier> frontiers;
    Position committed = 0;
    for (const TokenId added : golden_.Integers("draft_context")) {
      Frontier& frontier = frontiers.emplace_back();
      frontier.sequence = {1, 0};
      frontier.new_tokens = {tokens_.begin() + committed, tokens_.begin() + committed + added};
      committed += added;
      frontier.committed = committed;
      frontier.root = golden_.Integers("bonus_" + std::to_string(frontiers.size() - 1))[0];
      frontier.candidates = static_cast<int>(ids_.size());
    }
    return frontiers;
  }

  // The marginals after `paths`.
  std::vector<Marginals> Expand(Frontier frontier, std::vector<std::vector<TokenId>> paths) {
    frontier.paths = std::move(paths);
    auto drafts = engine_->Expand({frontier});
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    EXPECT_TRUE(drafts->at(0).status.ok()) << drafts->at(0).status;
    return std::move(drafts->at(0).marginals);
  }

  // Compares a position of `marginals` with logits [D].
  void ExpectReference(const Marginals& marginals, int position, const float* logits) const {
    const int columns = static_cast<int>(ids_.size());
    ASSERT_LT(position, marginals.positions);
    ASSERT_EQ(marginals.candidates, columns);
    ASSERT_TRUE(marginals.Validate(kMaxVocabulary).ok());
    const double sum = std::accumulate(
        logits, logits + columns, 0.0,
        [](double total, float logit) { return total + std::exp(static_cast<double>(logit)); });
    std::vector<float> log_probs(kMaxVocabulary, 1);
    for (int c = 0; c < columns; ++c) {
      log_probs[marginals.token(position, c)] = marginals.log_prob(position, c);
    }
    for (int c = 0; c < columns; ++c) {
      ASSERT_NEAR(log_probs[ids_[c]], logits[c] - std::log(sum), kReferenceTolerance)
          << "position " << position << ", token " << ids_[c];
    }
  }

  const std::string folder_;
  const GoldenFile golden_;
  const std::vector<TokenId> tokens_, ids_;
  nn::LocalDevice local_ = *nn::OpenLocalDevice(2);
  std::unique_ptr<GoldenFeatures> features_;
  std::unique_ptr<drafter::DrafterEngine> engine_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_PARITY_STATEFUL_PARITY_FIXTURE_H_
