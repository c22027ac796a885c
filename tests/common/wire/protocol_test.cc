#include "common/wire/protocol.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

// step_stream_test.cc tests CheckProtocol with a caller that has a different version.

TEST(ProtocolTest, StatusesCrossGrpcUnchanged) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "what was wrong");
    const grpc::Status sent = ToGrpc(status);
    EXPECT_EQ(static_cast<int>(sent.error_code()), code);
    EXPECT_EQ(FromGrpc(sent), status);
  }
}

TEST(ProtocolTest, ACallerWithoutAVersionIsRefused) {
  grpc::ServerContext context;
  const absl::Status status = CheckProtocol(context);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("version none"));
}

TEST(ProtocolTest, AChannelToAMissingPeerIsNotReady) {
  const auto channel = ConnectPeer("unix:/nowhere/at/all.sock");
  ASSERT_NE(channel, nullptr);
  EXPECT_NE(channel->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
}

}  // namespace
}  // namespace bastion::wire
