// A stream that breaks during a Post is a loss for the caller, although Post itself returns
// nothing: the peer has forgotten what it knew.
#include <memory>

#include "bastion/internal/v1/stages.pb.h"
#include "common/wire/step_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;
using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(1);

// Answers each request, until it breaks.
class BreakableStream final : public MessageStream<proto::DrafterRequest, proto::DrafterReply> {
 public:
  explicit BreakableStream(const bool* broken) : broken_(broken) {}

  absl::Status Send(const proto::DrafterRequest& request, absl::Time) override {
    step_ = request.step();
    return *broken_ ? absl::UnavailableError("connection reset") : absl::OkStatus();
  }
  absl::Status Receive(proto::DrafterReply* reply, absl::Time) override {
    reply->set_step(step_);
    return absl::OkStatus();
  }
  bool supports_deadlines() const override { return true; }
  void Cancel() override {}
  Carrier& carrier() override { return carrier_; }

 private:
  const bool* const broken_;
  uint64_t step_ = 0;
  InlineCarrier carrier_;
};

class BrokenPostTest : public ::testing::Test {
 protected:
  // Calls, then posts twice to a peer whose stream has broken. A new stream would work.
  void BreakAndPost() {
    ASSERT_TRUE(stream_.Call({}, kTimeout).ok());
    broken_ = true;
    EXPECT_TRUE(stream_.Post({}, kTimeout));
    EXPECT_TRUE(stream_.Post({}, kTimeout));
    EXPECT_FALSE(stream_.connected());
    broken_ = false;
    stream_.RetryAtOnce();  // As if the retry interval were over.
  }

  bool broken_ = false;
  StepStream<proto::DrafterRequest, proto::DrafterReply> stream_{
      "the peer", [this](absl::Time) { return std::make_unique<BreakableStream>(&broken_); }};
};

TEST_F(BrokenPostTest, TheNextCallReportsTheEndOfTheStreamOnce) {
  BreakAndPost();
  const absl::Status lost = stream_.Call({}, kTimeout).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(lost.message(), HasSubstr("connection reset"));
  EXPECT_TRUE(stream_.Call({}, kTimeout).ok());
}

TEST_F(BrokenPostTest, ACallerWhoDropsTheStreamKnowsThatItHasEnded) {
  BreakAndPost();
  stream_.Drop();
  EXPECT_TRUE(stream_.Call({}, kTimeout).ok());
}

}  // namespace
}  // namespace bastion::wire
