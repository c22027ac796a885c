// The verifier's end of a feature stream sends no row for which it has no credit.
#include "verifier_service/features/feature_pusher.h"

#include <atomic>
#include <deque>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::verifier {
namespace {

using ::bastion::internal::v1::FeatureReply;
using ::bastion::internal::v1::FeatureRequest;
using ::testing::ElementsAre;

constexpr SequenceId kSequence = {1, 0};
constexpr int kWidth = 2;
constexpr size_t kRowBytes = kWidth * sizeof(float);

// A drafter whose requests a test makes, and which keeps the numbers of rows that it gets.
class ScriptedDrafter final : public FeaturePusher::Stream {
 public:
  void Ask(FeatureRequest request) {
    MutexLock lock(&mutex_);
    requests_.push_back(std::move(request));
  }
  // Waits until the rows before `end` have arrived. Returns the rows of each reply so far.
  std::vector<int> AwaitRows(int end) {
    MutexLock lock(&mutex_);
    const auto arrived = [&] {
      mutex_.AssertHeld();
      return end_ >= end;
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(arrived, absl::Seconds(30))) << end_;
    return rows_;
  }
  [[nodiscard]] bool has_next() {
    MutexLock lock(&mutex_);
    return has_next_;
  }

  // Messages can be sent from the engine's thread from now on. On the calling thread, they throw.
  void ThrowHere() {
    MutexLock lock(&mutex_);
    throws_on_ = std::this_thread::get_id();
    supports_deadlines_ = true;
  }

  // Reads no reply anymore.
  void Hang() { hangs_ = true; }
  // Waits until the stream is canceled; false after 30 seconds.
  bool AwaitCancel() {
    MutexLock lock(&mutex_);
    const auto canceled = [&] {
      mutex_.AssertHeld();
      return canceled_;
    };
    return mutex_.AwaitWithTimeout(canceled, absl::Seconds(30));
  }

  absl::Status Send(const FeatureReply& reply, absl::Time) override {
    if (hangs_) {
      (void)AwaitCancel();
      return absl::UnavailableError("canceled");
    }
    MutexLock lock(&mutex_);
    if (std::this_thread::get_id() == throws_on_) throw std::bad_alloc();
    EXPECT_EQ(reply.status().code(), 0);
    EXPECT_EQ(reply.first(), end_);
    rows_.push_back(static_cast<int>(reply.features().shape(0)));
    end_ += rows_.back();
    has_next_ = reply.has_next();
    return absl::OkStatus();
  }
  absl::Status Receive(FeatureRequest* request, absl::Time) override {
    MutexLock lock(&mutex_);
    const auto ready = [&] {
      mutex_.AssertHeld();
      return canceled_ || !requests_.empty();
    };
    mutex_.AwaitWithTimeout(ready, absl::InfiniteDuration());
    if (canceled_) return absl::UnavailableError("canceled");
    *request = std::move(requests_.front());
    requests_.pop_front();
    return absl::OkStatus();
  }
  bool supports_deadlines() const override { return supports_deadlines_; }
  void Cancel() override {
    MutexLock lock(&mutex_);
    canceled_ = true;
  }
  wire::Carrier& carrier() override { return carrier_; }

 private:
  wire::InlineCarrier carrier_;
  std::atomic<bool> supports_deadlines_{false}, hangs_{false};
  Mutex mutex_;
  std::thread::id throws_on_ ABSL_GUARDED_BY(mutex_);
  std::deque<FeatureRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> rows_ ABSL_GUARDED_BY(mutex_);
  int end_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_next_ ABSL_GUARDED_BY(mutex_) = false;
  bool canceled_ ABSL_GUARDED_BY(mutex_) = false;
};

FeatureRequest Follow(uint64_t number, int first, int end) {
  FeatureRequest request;
  request.mutable_follow()->mutable_sequence()->set_session(kSequence.session);
  request.mutable_follow()->set_number(number);
  request.mutable_follow()->set_first(first);
  request.mutable_follow()->set_end(end);
  return request;
}

FeatureRequest Grant(uint64_t follow, int end) {
  FeatureRequest request;
  request.mutable_grant()->mutable_sequence()->set_session(kSequence.session);
  request.mutable_grant()->set_follow(follow);
  request.mutable_grant()->set_end(end);
  return request;
}

// The rows are in a ring in GPU memory, or only in the store.
class FeaturePusherTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      auto ring = wire::DeviceRingWriter::Create(wire::Descriptor(), 100 * kRowBytes, "a GPU");
      ASSERT_TRUE(ring.ok()) << ring.status();
      ring_ = *std::move(ring);
    }
    store_ = std::make_unique<FeatureStore>(DType::kF32, 1 << 20, ring_);
    store_->Open(kSequence, kWidth);
    AppendRows(kRows);
    running_ = std::thread([this] { FeaturePusher(store_.get(), &drafter_, ring_.get()).Run(); });
  }
  void TearDown() override {
    drafter_.Cancel();
    if (running_.joinable()) running_.join();
  }

  void AppendRows(int rows) {
    std::optional<uint64_t> position;
    if (ring_ != nullptr) {
      position = ring_->Reserve(rows * kRowBytes);
      ring_->Keep(rows * kRowBytes);
    }
    store_->Append(kSequence, std::string(rows * kRowBytes, 'x'), /*next=*/5, position);
  }

  static constexpr int kRows = 40;
  std::shared_ptr<wire::DeviceRingWriter> ring_;
  std::unique_ptr<FeatureStore> store_;
  ScriptedDrafter drafter_;
  std::thread running_;
};

TEST_P(FeaturePusherTest, SendsOnlyRowsForWhichItHasCredit) {
  drafter_.Ask(Follow(1, /*first=*/0, /*end=*/16));
  EXPECT_THAT(drafter_.AwaitRows(16), ElementsAre(16));
  EXPECT_FALSE(drafter_.has_next()) << "rows are missing";
  drafter_.Ask(Grant(1, 24));
  EXPECT_THAT(drafter_.AwaitRows(24), ElementsAre(16, 8));
  drafter_.Ask(Grant(1, 100));
  EXPECT_THAT(drafter_.AwaitRows(kRows), ElementsAre(16, 8, kRows - 24));
  EXPECT_TRUE(drafter_.has_next());
}

TEST_P(FeaturePusherTest, IgnoresGrantsOfEarlierRequestsAndSmallerOnes) {
  drafter_.Ask(Grant(1, 100));
  drafter_.Ask(Follow(2, /*first=*/0, /*end=*/16));
  drafter_.Ask(Grant(1, 100));
  drafter_.Ask(Grant(2, 3));
  drafter_.Ask(Grant(2, 20));
  const std::vector<int> rows = drafter_.AwaitRows(20);
  EXPECT_TRUE(rows == std::vector<int>({16, 4}) || rows == std::vector<int>({20}))
      << ::testing::PrintToString(rows);
}

TEST_P(FeaturePusherTest, SendsADrafterOfVersion4EverythingAtOnce) {
  drafter_.Ask(Follow(1, /*first=*/0, /*end=*/0));
  EXPECT_THAT(drafter_.AwaitRows(kRows), ElementsAre(kRows));
  EXPECT_TRUE(drafter_.has_next());
}

TEST_P(FeaturePusherTest, RowsThatTheEngineCannotSendFollowLater) {
  drafter_.Ask(Follow(1, /*first=*/0, /*end=*/100));
  (void)drafter_.AwaitRows(kRows);
  drafter_.ThrowHere();
  AppendRows(1);  // As the engine does.
  (void)drafter_.AwaitRows(kRows + 1);
  AppendRows(1);
  (void)drafter_.AwaitRows(kRows + 2);
}

// Otherwise a drafter that reads no reply could fill the memory of the verifier.
TEST_P(FeaturePusherTest, ADrafterThatFollowsTooManySequencesIsDisconnected) {
  drafter_.Hang();
  constexpr uint64_t kTooMany = (1 << 16) + 1;
  for (uint64_t session = 1; session <= kTooMany; ++session) {
    FeatureRequest request = Follow(1, /*first=*/0, /*end=*/100);
    request.mutable_follow()->mutable_sequence()->set_session(1000 + session);
    drafter_.Ask(std::move(request));
  }
  EXPECT_TRUE(drafter_.AwaitCancel());
}

INSTANTIATE_TEST_SUITE_P(Places, FeaturePusherTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "InARing" : "InTheStore"; });

}  // namespace
}  // namespace bastion::verifier
