#include "orchestrator/schedule/error_details.h"

#include "bastion/v1/error_details.pb.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(ErrorDetailsTest, TheRetryDelayIsAPayloadOfTheStatus) {
  const absl::Status status =
      WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(2500));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(2500));
  EXPECT_EQ(RetryDelay(absl::ResourceExhaustedError("full")), std::nullopt);
}

TEST(ErrorDetailsTest, TheWireFormatIsThatOfGoogleRpc) {
  const grpc::Status status = ToGrpcWithDetails(
      WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(2500)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "full");
  // google.rpc.Status: 1 = code, 2 = message, 3 = details. Any: 1 = type_url, 2 = value.
  // RetryInfo: 1 = retry_delay. Duration: 1 = seconds, 2 = nanos (500,000,000 as a varint).
  const std::string url = "type.googleapis.com/google.rpc.RetryInfo";
  const std::string duration("\x08\x02\x10\x80\xca\xb5\xee\x01", 8);
  const std::string info = std::string("\x0a\x08") + duration;
  const std::string any = "\x0a" + std::string(1, static_cast<char>(url.size())) + url + "\x12" +
                          std::string(1, static_cast<char>(info.size())) + info;
  const std::string expected =
      "\x08\x08\x12\x04"
      "full\x1a" +
      std::string(1, static_cast<char>(any.size())) + any;
  EXPECT_EQ(status.error_details(), expected);
}

TEST(ErrorDetailsTest, AStatusWithoutPayloadsHasNoDetails) {
  const grpc::Status status = ToGrpcWithDetails(absl::UnavailableError("not ready"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_details(), "");
  EXPECT_TRUE(ToGrpcWithDetails(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace bastion
