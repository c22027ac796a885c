// Seen: a drafter asked its verifier for shared memory a moment before the verifier served, and
// opened its stream a moment after that. The features then went over gRPC as long as both ran.
#include "absl/time/clock.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/wire/open_stream.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;

TEST(EarlyStreamsTest, AreOpenedAgainInsteadOfOverGrpc) {
  Attacher attacher("unix:///x", CarrierChoice::kAuto, AttachRequest::STREAM_STEPS, [](auto&&...) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused");
  });
  bool over_grpc = false;
  const auto stream = OpenTimedStream<proto::VerifierRequest, proto::VerifierReply>(
      attacher,
      [&](grpc::ClientContext*, grpc::CompletionQueue*)
          -> std::unique_ptr<
              grpc::ClientAsyncReaderWriter<proto::VerifierRequest, proto::VerifierReply>> {
        over_grpc = true;
        return nullptr;
      },
      absl::Now() + absl::Seconds(1));
  EXPECT_TRUE(absl::IsUnavailable(stream.status())) << stream.status();
  EXPECT_FALSE(over_grpc);
}

}  // namespace
}  // namespace bastion::wire
