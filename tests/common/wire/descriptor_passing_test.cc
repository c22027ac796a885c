#include "common/wire/descriptor_passing.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

using ::testing::HasSubstr;

class DescriptorPassingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    left_ = Descriptor(ends[0]);
    right_ = Descriptor(ends[1]);
  }

  Descriptor left_, right_;
};

TEST_F(DescriptorPassingTest, APacketCarriesTextAndDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor reading(ends[0]), writing(ends[1]);
  ASSERT_TRUE(SendDescriptors(left_, "token", {reading.get(), writing.get()}).ok());
  const auto packet = ReceiveDescriptors(right_, 2);
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(packet->text, "token");
  ASSERT_EQ(packet->descriptors.size(), 2u);
  // The received descriptors are copies of the two ends of the pipe.
  EXPECT_NE(packet->descriptors[0].get(), reading.get());
  ASSERT_EQ(write(packet->descriptors[1].get(), "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(read(reading.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_NE(fcntl(packet->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(DescriptorPassingTest, AWrongNumberOfDescriptorsIsRefused) {
  for (const size_t expected : {1, 3}) {
    ASSERT_TRUE(SendDescriptors(left_, "x", {left_.get(), right_.get()}).ok());
    const absl::Status status = ReceiveDescriptors(right_, expected).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("2 descriptors from the peer"));
  }
}

TEST_F(DescriptorPassingTest, AClosedConnectionIsUnavailable) {
  right_ = Descriptor();
  EXPECT_TRUE(absl::IsUnavailable(ReceiveDescriptors(left_, 1).status()));
  EXPECT_TRUE(absl::IsUnavailable(SendDescriptors(left_, "x", {left_.get()})));
}

TEST_F(DescriptorPassingTest, ReceiveStopsAtTheTimeout) {
  SetTimeouts(left_, absl::Milliseconds(20));
  EXPECT_FALSE(ReceiveDescriptors(left_, 1).ok());
  SetTimeouts(left_, absl::ZeroDuration());
  EXPECT_FALSE(ReceiveDescriptors(left_, 1).ok());
}

TEST_F(DescriptorPassingTest, ASignalDoesNotEndReceive) {
  struct sigaction ignored {
  }, before{};
  ignored.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &ignored, &before), 0);
  SetTimeouts(left_, absl::Seconds(60));
  std::thread sender([this, receiver = pthread_self()] {
    for (int i = 0; i < 20; ++i) {
      pthread_kill(receiver, SIGUSR1);
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_TRUE(SendDescriptors(right_, "x", {right_.get()}).ok());
  });
  const auto packet = ReceiveDescriptors(left_, 1);
  sender.join();
  EXPECT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(DescriptorPassingTest, CheckPeerUserComparesTheUser) {
  EXPECT_TRUE(CheckPeerUser(left_, geteuid()).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(CheckPeerUser(left_, geteuid() + 1)));
}

TEST(SocketAddressTest, ThePathMustFit) {
  EXPECT_TRUE(SocketAddress(std::string(107, 'x')).ok());
  for (const std::string& path : {std::string(), std::string(108, 'x')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SocketAddress(path).status())) << path;
  }
}

}  // namespace
}  // namespace bastion::wire
