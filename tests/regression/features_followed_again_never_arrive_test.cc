// A drafter that lost features asked for them twice in the same words. The verifier was sending
// when the second request came. It took the request for the one that it was answering, and never
// sent the features again. All later drafts of the sequence failed.
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "verifier_service/features/feature_pusher.h"

namespace bastion::verifier {
namespace {

using ::bastion::internal::v1::FeatureReply;
using ::bastion::internal::v1::FeatureRequest;

constexpr SequenceId kFollowed = {1, 0};

FeatureRequest Follow(uint64_t number) {
  FeatureRequest request;
  request.mutable_follow()->mutable_sequence()->set_session(kFollowed.session);
  request.mutable_follow()->set_number(number);
  return request;
}

// The verifier's end of a stream whose drafter follows the sequence again, in the same words, while
// the first reply is being sent.
class DrafterThatAsksTwice final : public FeaturePusher::Stream {
 public:
  absl::Status Send(const FeatureReply& reply, absl::Time) override {
    if (replies_.empty()) {
      asks_again_.Notify();
      second_request_taken_.WaitForNotification();
    }
    replies_.push_back(reply.follow());
    if (replies_.size() == 2) answered_.Notify();
    return absl::OkStatus();
  }
  absl::Status Receive(FeatureRequest* request, absl::Time) override {
    switch (++received_) {
      case 1:
        *request = Follow(1);
        return absl::OkStatus();
      case 2:
        asks_again_.WaitForNotification();
        *request = Follow(2);
        return absl::OkStatus();
      default:
        if (received_ == 3) second_request_taken_.Notify();
        answered_in_time_ = answered_.WaitForNotificationWithTimeout(absl::Seconds(10));
        return absl::UnavailableError("the drafter has disconnected");
    }
  }
  bool supports_deadlines() const override { return false; }
  void Cancel() override {}
  wire::Carrier& carrier() override { return carrier_; }

  bool answered_in_time() const { return answered_in_time_; }
  const std::vector<uint64_t>& replies() const { return replies_; }

 private:
  wire::InlineCarrier carrier_;
  int received_ = 0;
  std::vector<uint64_t> replies_;  // The number of the request that each one answers.
  absl::Notification asks_again_, second_request_taken_, answered_;
  bool answered_in_time_ = false;
};

TEST(RegressionTest, FeaturesThatAreFollowedAgainWhileTheyAreSentAreSentAgain) {
  FeatureStore store(DType::kF32, 1 << 20);
  store.Open(kFollowed, /*width=*/2);
  const std::vector<char> rows(3 * 2 * sizeof(float));
  store.Append(kFollowed, rows);
  DrafterThatAsksTwice drafter;
  FeaturePusher(&store, &drafter).Run();
  EXPECT_TRUE(drafter.answered_in_time());
  EXPECT_EQ(drafter.replies(), (std::vector<uint64_t>{1, 2}));
}

}  // namespace
}  // namespace bastion::verifier
