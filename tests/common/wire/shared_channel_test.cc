// Tests streams over shared memory, with both ends in one process and with a peer that is killed.
#include "common/wire/shared_channel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/shared_pair.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;
using ::testing::HasSubstr;

constexpr size_t kRing = 1 << 20;
constexpr absl::Time kNever = absl::InfiniteFuture();

proto::FeatureReply Message(int first) {
  proto::FeatureReply message;
  message.set_first(first);
  return message;
}

class SharedChannelTest : public ::testing::Test {
 protected:
  SharedChannelTest() {
    testing::SharedPair pair = testing::MakeSharedPair(kRing);
    left_lease_ = pair.first.lease.get();
    right_lease_ = pair.second.lease.get();
    left_ = std::make_unique<SharedChannel>(std::move(pair.first));
    right_ = std::make_unique<SharedChannel>(std::move(pair.second));
  }
  static absl::Status Send(SharedChannel& channel, int first) {
    return channel.Send(Message(first), kNever);
  }
  static int Receive(SharedChannel& channel) {
    proto::FeatureReply message;
    const absl::Status status = channel.Receive(&message, absl::Now() + absl::Seconds(20));
    EXPECT_TRUE(status.ok()) << status;
    return message.first();
  }
  static absl::Status ReceiveStatus(SharedChannel& channel, absl::Duration timeout) {
    proto::FeatureReply message;
    return channel.Receive(&message, absl::Now() + timeout);
  }

  int left_lease_, right_lease_;
  std::unique_ptr<SharedChannel> left_, right_;
};

TEST_F(SharedChannelTest, MessagesGoBothWays) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Send(*left_, i).ok());
    EXPECT_EQ(Receive(*right_), i);
    ASSERT_TRUE(Send(*right_, -i).ok());
    EXPECT_EQ(Receive(*left_), -i);
  }
}

// The counter changes faster than the sender looks at it.
TEST(HostilePeerTest, SendEndsAtTheDeadlineAndAtCancelAlthoughTheAckKeepsChanging) {
  testing::SharedPair pair = testing::MakeSharedPair(kRing);
  auto& ack = reinterpret_cast<SharedCounters*>(pair.second.mine.data())->ack;
  SharedChannel channel(std::move(pair.first));
  constexpr uint64_t kInvalid = uint64_t{1} << 40;
  ack = kInvalid;  // Counts as a full ring.
  std::atomic<bool> stop{false};
  std::thread hostile([&] {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    for (uint64_t i = 0; !stop && absl::Now() < end; ++i) ack = kInvalid + i;
  });
  const absl::Time start = absl::Now();
  const absl::Status late = channel.Send(Message(1), SteadyNow() + absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  std::thread canceling([&] {
    absl::SleepFor(absl::Milliseconds(50));
    channel.Cancel();
  });
  const absl::Status canceled = channel.Send(Message(1), kNever);
  EXPECT_TRUE(absl::IsUnavailable(canceled)) << canceled;
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  stop = true;
  hostile.join();
  canceling.join();
}

TEST_F(SharedChannelTest, TensorsTravelInTheRing) {
  std::mt19937 random(3);
  for (const int64_t rows : {1, 0, 7, 700, 3}) {
    std::string bytes(rows * 2 * 320, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    proto::FeatureReply sent = Message(1), received;
    left_->Put({TensorRef::DTYPE_BFLOAT16, {rows, 320}}, bytes, *sent.mutable_features());
    EXPECT_EQ(sent.features().carrier_case(), TensorRef::kSlot);
    ASSERT_TRUE(left_->Send(sent, kNever).ok());
    ASSERT_TRUE(right_->Receive(&received, kNever).ok());
    const auto got = right_->Get(received.features());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, bytes);
  }
}

TEST_F(SharedChannelTest, ATensorWithoutRoomTravelsInline) {
  const std::string bytes(kRing / 2, 'x');
  proto::FeatureReply sent = Message(1);
  left_->Put({TensorRef::DTYPE_BFLOAT16, {1, kRing / 4}}, bytes, *sent.mutable_features());
  EXPECT_EQ(sent.features().carrier_case(), TensorRef::kInline);
  const absl::Status status = left_->Send(sent, kNever);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  ASSERT_TRUE(Send(*left_, 2).ok());
  EXPECT_EQ(Receive(*right_), 2);
}

TEST_F(SharedChannelTest, GetRefusesInvalidSlots) {
  ASSERT_TRUE(Send(*left_, 1).ok());
  EXPECT_EQ(Receive(*right_), 1);
  proto::TensorRef reference;
  reference.set_dtype(TensorRef::DTYPE_FLOAT32);
  reference.add_shape(2);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{kRing}, ~uint64_t{0}, ~uint64_t{7}}) {
    reference.mutable_slot()->set_offset(offset);
    reference.mutable_slot()->set_bytes(8);
    EXPECT_TRUE(absl::IsInvalidArgument(right_->Get(reference).status())) << offset;
  }
  reference.mutable_slot()->set_offset(64);
  reference.mutable_slot()->set_bytes(4);  // The shape needs 8.
  EXPECT_TRUE(absl::IsInvalidArgument(right_->Get(reference).status()));
  EXPECT_TRUE(absl::IsUnimplemented(InlineCarrier().Get(reference).status()));
}

TEST_F(SharedChannelTest, AWaitEndsAtTheDeadlineAndTheStreamStaysOpen) {
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(ReceiveStatus(*left_, absl::Milliseconds(30))));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(30));
  EXPECT_TRUE(absl::IsDeadlineExceeded(ReceiveStatus(*left_, absl::ZeroDuration())));
  ASSERT_TRUE(Send(*right_, 5).ok());
  EXPECT_EQ(Receive(*left_), 5);
}

TEST_F(SharedChannelTest, ASlowReaderBlocksTheWriterAndLosesNothing) {
  constexpr int kMessages = 300;
  std::thread writing([&] {
    for (int i = 0; i < kMessages; ++i) {
      proto::FeatureReply message = Message(i);
      left_->Put({TensorRef::DTYPE_INT32, {10000}}, std::string(40000, static_cast<char>(i)),
                 *message.mutable_features());
      EXPECT_TRUE(left_->Send(message, kNever).ok());
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    if (i % 50 == 0) absl::SleepFor(absl::Milliseconds(20));
    proto::FeatureReply message;
    ASSERT_TRUE(right_->Receive(&message, kNever).ok());
    ASSERT_EQ(message.first(), i);
    const auto bytes = right_->Get(message.features());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, std::string(40000, static_cast<char>(i)));
  }
  writing.join();
}

TEST_F(SharedChannelTest, SendTimesOutIfTheReaderNeverReads) {
  const std::string bytes(100000, 'x');
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    proto::FeatureReply message = Message(i);
    left_->Put({TensorRef::DTYPE_INT32, {25000}}, bytes, *message.mutable_features());
    status = left_->Send(message, absl::Now() + absl::Milliseconds(20));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(Receive(*right_), 0);
  EXPECT_TRUE(Send(*left_, 4711).ok());
}

TEST_F(SharedChannelTest, MessagesSentBeforeEndArriveBeforeTheReason) {
  ASSERT_TRUE(Send(*left_, 1).ok());
  left_->End(absl::AbortedError("client stopped"));
  EXPECT_EQ(Receive(*right_), 1);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = ReceiveStatus(*right_, absl::Seconds(20));
    EXPECT_EQ(status, absl::AbortedError("client stopped"));
  }
}

TEST_F(SharedChannelTest, NothingArrivesAfterCancel) {
  ASSERT_TRUE(Send(*left_, 1).ok());
  right_->Cancel();
  EXPECT_TRUE(absl::IsUnavailable(ReceiveStatus(*right_, absl::Seconds(20))));
  EXPECT_TRUE(absl::IsUnavailable(Send(*right_, 1)));
}

TEST_F(SharedChannelTest, AnEndWithDeadlineExceededBecomesUnavailable) {
  left_->End(absl::DeadlineExceededError("not yet"));
  EXPECT_TRUE(absl::IsUnavailable(ReceiveStatus(*right_, absl::Seconds(20))));
}

TEST_F(SharedChannelTest, CancelWakesAWaitingThread) {
  for (const bool own : {false, true}) {
    testing::SharedPair pair = testing::MakeSharedPair(kRing);
    SharedChannel left(std::move(pair.first)), right(std::move(pair.second));
    std::thread ending([&] {
      absl::SleepFor(absl::Milliseconds(50));
      (own ? right : left).Cancel();
    });
    const absl::Time start = absl::Now();
    EXPECT_TRUE(absl::IsUnavailable(ReceiveStatus(right, absl::Seconds(20))));
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
    ending.join();
  }
}

TEST_F(SharedChannelTest, ABodyThatCannotBeParsedIsDataLoss) {
  testing::SharedPair pair = testing::MakeSharedPair(kRing);
  RingWriter writer(pair.first.mine, pair.first.theirs, testing::kTestEpoch);
  SharedChannel right(std::move(pair.second));
  const RingWriter::Piece body = writer.Reserve(8);
  std::memset(body.data, 0xff, 8);
  writer.Publish(body, 8);
  EXPECT_TRUE(absl::IsDataLoss(ReceiveStatus(right, absl::Seconds(20))));
}

// The peer is a child process that is killed while it sends or receives.
class KilledPeerTest : public SharedChannelTest {
 protected:
  // The child uses `left_`; this process uses `right_`.
  void Start(const std::function<void(SharedChannel&)>& child) {
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      close(right_lease_);
      child(*left_);
      pause();
      _exit(0);
    }
    close(left_lease_);  // Otherwise the lease would stay open after the child's death.
  }
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void TearDown() override {
    // Reuses the number of the closed descriptor, because `left_` closes it again.
    (void)open("/dev/null", O_RDONLY);
  }

  pid_t pid_ = 0;
};

TEST_F(KilledPeerTest, AWriterKilledWithinAMessageHasSentOnlyCompleteMessages) {
  Start([](SharedChannel& channel) {
    (void)channel.Send(Message(1), kNever);
    proto::TensorRef reference;  // A second message, half written.
    std::memset(channel.Reserve({TensorRef::DTYPE_INT32, {1000}}, reference), 'x', 2000);
  });
  EXPECT_EQ(Receive(*right_), 1);
  absl::SleepFor(absl::Milliseconds(50));
  std::thread killing([&] {
    absl::SleepFor(absl::Milliseconds(50));
    Kill();
  });
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsUnavailable(ReceiveStatus(*right_, absl::Seconds(20))));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  killing.join();
}

TEST_F(KilledPeerTest, AWriterKilledAtAnyTimeHasSentOnlyCompleteMessages) {
  Start([](SharedChannel& channel) {
    for (int i = 0;; ++i) {
      proto::FeatureReply message = Message(i);
      channel.Put({TensorRef::DTYPE_INT32, {5000}}, std::string(20000, static_cast<char>(i)),
                  *message.mutable_features());
      (void)channel.Send(message, kNever);
    }
  });
  std::thread killing([&] {
    absl::SleepFor(absl::Milliseconds(100));
    Kill();
  });
  absl::Status status;
  for (int i = 0;; ++i) {
    proto::FeatureReply message;
    status = right_->Receive(&message, absl::Now() + absl::Seconds(20));
    if (!status.ok()) break;
    ASSERT_EQ(message.first(), i);
    EXPECT_EQ(*right_->Get(message.features()), std::string(20000, static_cast<char>(i)));
  }
  killing.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(KilledPeerTest, AKilledReaderUnblocksAWriterThatWaitsForRoom) {
  Start([](SharedChannel& channel) {
    proto::FeatureReply message;
    (void)channel.Receive(&message, kNever);  // The child never releases this message.
  });
  std::thread killing([&] {
    absl::SleepFor(absl::Milliseconds(100));
    Kill();
  });
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    proto::FeatureReply message = Message(i);
    right_->Put({TensorRef::DTYPE_INT32, {5000}}, std::string(20000, 'x'),
                *message.mutable_features());
    status = right_->Send(message, kNever);
  }
  killing.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

}  // namespace
}  // namespace bastion::wire
