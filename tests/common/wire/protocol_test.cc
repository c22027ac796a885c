#include "common/wire/protocol.h"

#include <grpcpp/test/server_context_test_spouse.h>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
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

TEST(ProtocolTest, AnOrchestratorOfTheReleaseBeforeIsServed) {
  for (int version = kOldestProtocolVersion - 1; version <= kProtocolVersion + 1; ++version) {
    grpc::ServerContext context;
    grpc::testing::ServerContextTestSpouse metadata(&context);
    metadata.AddClientMetadata(kProtocolKey, absl::StrCat(version));
    const bool is_known = version >= kOldestProtocolVersion && version <= kProtocolVersion;
    EXPECT_EQ(CheckProtocol(context).ok(), is_known) << version;
  }
}

TEST(ProtocolTest, ADeadlineForGrpcFollowsTheSteadyClock) {
  const auto left = [](absl::Time deadline) {
    return absl::Microseconds(static_cast<int64_t>(gpr_timespec_to_micros(
        gpr_time_sub(gpr_convert_clock_type(GrpcDeadline(deadline), GPR_CLOCK_MONOTONIC),
                     gpr_now(GPR_CLOCK_MONOTONIC)))));
  };
  EXPECT_NEAR(absl::ToDoubleSeconds(left(SteadyNow() + absl::Seconds(100))), 100, 5);
  for (const absl::Time past : {SteadyNow() - absl::Nanoseconds(1), absl::InfinitePast()}) {
    EXPECT_EQ(gpr_time_cmp(GrpcDeadline(past), gpr_inf_past(GPR_CLOCK_MONOTONIC)), 0);
  }
  EXPECT_EQ(gpr_time_cmp(GrpcDeadline(absl::InfiniteFuture()), gpr_inf_future(GPR_CLOCK_MONOTONIC)),
            0);
}

TEST(ProtocolTest, AChannelToAMissingPeerIsNotReady) {
  const auto channel = ConnectPeer("unix:/nowhere/at/all.sock");
  ASSERT_NE(channel, nullptr);
  EXPECT_NE(channel->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
}

}  // namespace
}  // namespace bastion::wire
