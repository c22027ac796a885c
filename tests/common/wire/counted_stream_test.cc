// Tests that streams count their bytes: in messages, and in tensors outside of messages.
#include "common/wire/counted_stream.h"

#include <string>

#include "absl/time/clock.h"
#include "common/wire/shared_channel.h"
#include "gtest/gtest.h"
#include "tests/support/shared_pair.h"

namespace bastion::wire {
namespace {

using internal::v1::FeatureReply;
using Stream = CountedStream<FeatureReply, FeatureReply>;

constexpr size_t kRingBytes = 1 << 20;

const TensorShape kShape = {TensorRef::DTYPE_FLOAT32, {64, 16}};
constexpr int64_t kTensorBytes = 4 * 64 * 16;

class CountedStreamTest : public ::testing::Test {
 protected:
  CountedStreamTest() {
    testing::SharedPair pair = testing::MakeSharedPair(kRingBytes);
    left_ = Open(std::move(pair.first), &left_stats_);
    right_ = Open(std::move(pair.second), &right_stats_);
  }
  static std::unique_ptr<Stream> Open(SharedEnds ends, TransportStats* stats) {
    auto channel = std::make_shared<SharedChannel>(std::move(ends));
    return std::make_unique<Stream>(
        std::make_unique<SharedStream<FeatureReply, FeatureReply>>(std::move(channel)),
        /*shared=*/true, stats);
  }
  // Sends a tensor from left to right and returns the message that arrived.
  FeatureReply SendTensor(const TensorShape& shape) {
    FeatureReply message, received;
    const std::string bytes(static_cast<size_t>(shape.bytes()), 'x');
    left_->carrier().Put(shape, bytes, *message.mutable_features());
    EXPECT_TRUE(left_->Send(message, absl::Now() + absl::Seconds(20)).ok());
    EXPECT_TRUE(right_->Receive(&received, absl::Now() + absl::Seconds(20)).ok());
    const auto tensor = right_->carrier().Get(received.features());
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    if (tensor.ok()) {
      EXPECT_EQ(*tensor, bytes);
    }
    return received;
  }

  TransportStats left_stats_, right_stats_;
  std::unique_ptr<Stream> left_, right_;
};

TEST_F(CountedStreamTest, TheSenderAndTheReceiverCountMessagesAndTheirTensors) {
  const auto message_bytes = static_cast<int64_t>(SendTensor(kShape).ByteSizeLong());
  EXPECT_LT(message_bytes, 100);
  EXPECT_EQ(left_stats_.shared_memory.sent, kTensorBytes + message_bytes);
  EXPECT_EQ(right_stats_.shared_memory.received, kTensorBytes + message_bytes);
  EXPECT_EQ(left_stats_.shared_memory.received, 0);
  EXPECT_EQ(left_stats_.grpc.sent, 0);
  EXPECT_EQ(left_stats_.no_room, 0);
}

TEST_F(CountedStreamTest, ATensorWithoutRoomCountsAsAFallbackAndOnlyOnce) {
  // Reserved but never sent tensors fill the ring.
  FeatureReply unsent;
  while (left_stats_.no_room == 0) {
    ASSERT_LT(left_stats_.shared_memory.sent, 2 * static_cast<int64_t>(kRingBytes));
    ASSERT_NE(left_->carrier().Reserve(kShape, *unsent.mutable_features()), nullptr);
  }
  EXPECT_EQ(left_stats_.no_room, 1);
  EXPECT_EQ(static_cast<int64_t>(unsent.features().inline_().size()), kTensorBytes);
}

TEST_F(CountedStreamTest, AMessageThatWasNotReceivedDoesNotCount) {
  FeatureReply message;
  EXPECT_TRUE(absl::IsDeadlineExceeded(right_->Receive(&message, absl::Now())));
  left_->Cancel();
  EXPECT_FALSE(left_->Send(message, absl::Now() + absl::Seconds(20)).ok());
  EXPECT_EQ(left_stats_.shared_memory.sent, 0);
  EXPECT_EQ(right_stats_.shared_memory.received, 0);
}

}  // namespace
}  // namespace bastion::wire
