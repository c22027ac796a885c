// Tests that the client reads the details of errors as the server writes them.
#include "bastion/error_details.h"

#include "bastion/grpc_status.h"
#include "bastion/v1/error_details.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ErrorDetailsTest, TheInvalidFieldAndTheRequestIdArrive) {
  const absl::Status sent = WithRequestId(FieldError("sampling.top_p", "is 1.5"), "req-1");
  const absl::Status status = FromGrpc(ToGrpcWithDetails(sent));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "sampling.top_p: is 1.5");
  const ErrorDetails details = DetailsOf(status);
  ASSERT_THAT(details.field_violations, SizeIs(1));
  EXPECT_EQ(details.field_violations[0].field, "sampling.top_p");
  EXPECT_EQ(details.field_violations[0].description, "is 1.5");
  EXPECT_EQ(details.request_id, "req-1");
  EXPECT_FALSE(details.retry_delay.has_value());
}

TEST(ErrorDetailsTest, TheRetryDelayArrives) {
  const absl::Status sent =
      WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(1500));
  EXPECT_EQ(DetailsOf(FromGrpc(ToGrpcWithDetails(sent))).retry_delay, absl::Milliseconds(1500));
}

TEST(ErrorDetailsTest, DetailsThatAreNotOursLeaveCodeAndMessage) {
  v1::ErrorStatus other;
  other.add_details()->set_type_url(kRetryInfoUrl);
  other.mutable_details(0)->set_value("\xff\xff");
  for (const std::string& bytes : {std::string("\xff\xff"), other.SerializeAsString()}) {
    const absl::Status status =
        FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "proxy: no backend", bytes));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "proxy: no backend");
    const ErrorDetails details = DetailsOf(status);
    EXPECT_THAT(details.field_violations, IsEmpty());
    EXPECT_FALSE(details.retry_delay.has_value());
    EXPECT_THAT(details.request_id, IsEmpty());
  }
}

TEST(ErrorDetailsTest, TheServersRequestIdWinsOverTheClients) {
  const absl::Status sent = WithRequestId(absl::NotFoundError("no model"), "server");
  EXPECT_EQ(DetailsOf(EnsureRequestId(FromGrpc(ToGrpcWithDetails(sent)), "client")).request_id,
            "server");
  EXPECT_EQ(DetailsOf(EnsureRequestId(absl::NotFoundError("no model"), "client")).request_id,
            "client");
  EXPECT_TRUE(EnsureRequestId(absl::OkStatus(), "client").ok());
}

}  // namespace
}  // namespace bastion
