#include "drafter_service/engine/context_catch_up.h"

#include <memory>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kWidth = 2;

// Device memory whose rows were all overwritten.
class OverwrittenRing final : public DeviceRing {
 public:
  [[nodiscard]] const char* At(uint64_t) const override { return nullptr; }
  [[nodiscard]] bool Holds(uint64_t) const override { return false; }
};

class FakeFeatures final : public FeatureSource {
 public:
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    if (range.sequence.session == missing) return absl::DeadlineExceededError("not here yet");
    Features features;
    features.width = range.sequence.session == wrong_width ? 1 : kWidth;
    if (range.may_be_on_device) {
      features.device = {ring_, 0, range.count};
    } else {
      features.bytes.resize(range.count * features.row_bytes());
    }
    return features;
  }

  uint64_t missing = 0, wrong_width = 0;  // Sessions.

 private:
  std::shared_ptr<const DeviceRing> ring_ = std::make_shared<OverwrittenRing>();
};

// Remembers the rows of each item of each forward.
class FakeModel final : public DraftModel {
 public:
  explicit FakeModel(bool reads_device) {
    if (reads_device) reader_.emplace();
  }
  absl::Status AppendContext(const std::vector<ContextItem>& items) override {
    std::vector<int> rows;
    for (const ContextItem& item : items) {
      if (item.features.on_device() && !item.features.device.intact()) {
        return absl::AbortedError("overwritten");
      }
      rows.push_back(item.features.rows());
    }
    const absl::Status reserved = LayOutContext(items, kWidth, pages_).status();
    if (reserved.ok()) forwards.push_back(rows);
    return reserved;
  }
  absl::StatusOr<std::vector<Marginals>> Draft(const std::vector<BlockItem>&, int) override {
    return absl::UnimplementedError("not used");
  }
  nn::PagePool& pages() override { return pages_; }
  [[nodiscard]] nn::ForwardCost Cost() const override { return {}; }
  [[nodiscard]] const hub::ModelConfig& config() const override { return config_; }
  [[nodiscard]] const DeviceReader* device_reader() const override {
    return reader_.has_value() ? &*reader_ : nullptr;
  }

  std::vector<std::vector<int>> forwards;

 private:
  hub::ModelConfig config_;
  nn::PagePool pages_{100};
  std::optional<DeviceReader> reader_;
};

class ContextCatchUpTest : public ::testing::Test {
 protected:
  // Extends contexts of sessions 1, 2, … to these numbers of tokens. Each has three before.
  std::vector<ContextCatchUp::Request> Run(const std::vector<Position>& committed) {
    sequences_.clear();
    std::vector<ContextCatchUp::Request> requests;
    for (const Position tokens : committed) {
      sequences_.push_back(std::make_unique<DraftSequence>());
      DraftSequence& sequence = *sequences_.back();
      sequence.id = {sequences_.size(), 0};
      sequence.context = 3;
      EXPECT_TRUE(model_->pages().Reserve(sequence.table, 3).ok());
      requests.push_back({&sequence, tokens});
    }
    PatientFeatures patient(&features_);
    ContextCatchUp(model_.get(), &patient, &trace_).Run(absl::MakeSpan(requests));
    return requests;
  }

  FakeFeatures features_;
  std::unique_ptr<FakeModel> model_ = std::make_unique<FakeModel>(/*reads_device=*/false);
  DraftTrace trace_;
  std::vector<std::unique_ptr<DraftSequence>> sequences_;
};

TEST_F(ContextCatchUpTest, AllSequencesShareAForward) {
  const auto requests = Run({7, 3, 10, 5});
  EXPECT_THAT(model_->forwards, ElementsAre(ElementsAre(4, 7, 2)));
  for (const auto& request : requests) {
    EXPECT_TRUE(request.status.ok()) << request.status;
    EXPECT_EQ(request.sequence->context, request.committed);
  }
  EXPECT_EQ(trace_.context_tokens, 13);
}

TEST_F(ContextCatchUpTest, WithoutMissingTokensNothingIsRead) {
  features_.missing = 1;
  EXPECT_TRUE(Run({3})[0].status.ok());
  EXPECT_THAT(model_->forwards, IsEmpty());
}

TEST_F(ContextCatchUpTest, LongPromptsTakeSeveralForwards) {
  Run({3 + kContextChunk + 100, 13, 3 + kContextChunk});
  EXPECT_THAT(model_->forwards,
              ElementsAre(ElementsAre(kContextChunk), ElementsAre(100, 10, kContextChunk - 110),
                          ElementsAre(110)));
}

TEST_F(ContextCatchUpTest, MissingFeaturesFailTheirSequenceAlone) {
  features_.missing = 2;
  const auto requests = Run({5, 6, 7});
  EXPECT_TRUE(absl::IsDeadlineExceeded(requests[1].status)) << requests[1].status;
  EXPECT_EQ(requests[1].sequence->context, 3);
  EXPECT_THAT(model_->forwards, ElementsAre(ElementsAre(2, 4)));
}

TEST_F(ContextCatchUpTest, FeaturesThatTheModelRefusesFailTheirSequenceAlone) {
  features_.wrong_width = 2;
  const auto requests = Run({5, 6, 7});
  EXPECT_TRUE(absl::IsInvalidArgument(requests[1].status)) << requests[1].status;
  EXPECT_EQ(requests[1].sequence->context, 3);
  EXPECT_EQ(requests[0].sequence->context, 5);
  EXPECT_EQ(requests[2].sequence->context, 7);
}

TEST_F(ContextCatchUpTest, AFullCacheFailsTheSequencesThatDoNotFit) {
  const auto requests = Run({40, 1700, 40});
  EXPECT_TRUE(requests[0].status.ok()) << requests[0].status;
  EXPECT_TRUE(absl::IsResourceExhausted(requests[1].status)) << requests[1].status;
  EXPECT_TRUE(requests[2].status.ok()) << requests[2].status;
}

TEST_F(ContextCatchUpTest, RowsThatWereOverwrittenOnTheDeviceAreReadAsBytes) {
  model_ = std::make_unique<FakeModel>(/*reads_device=*/true);
  const auto requests = Run({5, 6});
  for (const auto& request : requests) {
    EXPECT_TRUE(request.status.ok()) << request.status;
    EXPECT_EQ(request.sequence->context, request.committed);
  }
  EXPECT_EQ(trace_.context_tokens, 5);
}

}  // namespace
}  // namespace bastion::drafter
