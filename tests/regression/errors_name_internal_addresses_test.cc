// Errors of the verifier reached clients as they were: with statuses that the API does not promise,
// and with addresses, socket paths and sequence ids.
#include <gmock/gmock.h>

#include "bastion/v1/error_details.pb.h"
#include "orchestrator/api/public_status.h"
#include "tests/orchestrator/api/hosted_service_fixture.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "sequence 1234@0 is not open at unix:///run/bastion/verifier.sock";

// The detail of a status with the given type.
template <typename Detail>
Detail DetailOf(const grpc::Status& status, const std::string& type) {
  v1::ErrorStatus details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  Detail detail;
  for (const auto& any : details.details()) {
    if (any.type_url() == "type.googleapis.com/google.rpc." + type) {
      EXPECT_TRUE(detail.ParseFromString(any.value()));
      return detail;
    }
  }
  ADD_FAILURE() << "no " << type;
  return detail;
}

using ErrorsNameInternalAddressesTest = testing::HostedServiceTest;

TEST(PublicStatusTest, EveryInternalErrorBecomesAPromisedOne) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kCancelled, absl::StatusCode::kUnknown,
        absl::StatusCode::kInvalidArgument, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kNotFound, absl::StatusCode::kAlreadyExists,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kAborted, absl::StatusCode::kOutOfRange, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kInternal, absl::StatusCode::kUnavailable, absl::StatusCode::kDataLoss,
        absl::StatusCode::kUnauthenticated}) {
    const absl::Status shown = PublicStatus(absl::Status(code, kSecret), "req-7");
    EXPECT_EQ(shown.code(), absl::StatusCode::kUnavailable) << code;
    EXPECT_THAT(std::string(shown.message()), Not(HasSubstr("verifier"))) << code;
    EXPECT_THAT(std::string(shown.message()), HasSubstr("req-7")) << code;
  }
  EXPECT_TRUE(
      absl::IsResourceExhausted(PublicStatus(absl::ResourceExhaustedError(kSecret), "req-7")));
  EXPECT_TRUE(PublicStatus(absl::OkStatus(), "req-7").ok());
}

TEST_F(ErrorsNameInternalAddressesTest, AnErrorOfTheVerifierIsReplaced) {
  Serve();
  verifier_.SetOpenError(absl::NotFoundError(kSecret));
  v1::GenerateRequest request = Request(5);
  request.set_request_id("my-request");
  const grpc::Status status = Generate(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), Not(HasSubstr("unix")));
  EXPECT_THAT(status.error_details(), Not(HasSubstr("unix")));
  EXPECT_EQ(DetailOf<v1::RequestInfo>(status, "RequestInfo").request_id(), "my-request");
  EXPECT_GT(DetailOf<v1::RetryInfo>(status, "RetryInfo").retry_delay().seconds(), 0);
}

TEST_F(ErrorsNameInternalAddressesTest, ALostVerifierIsNotNamed) {
  options_.verifier_patience = absl::Milliseconds(100);
  Serve();
  verifier_.Hold(true);
  const auto stub = Connect();
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, Request(5));
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  verifier_.SetUnavailable(true);
  verifier_.Hold(false);
  v1::GenerateResponse event;
  while (reader->Read(&event)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), Not(HasSubstr("the stream broke")));
}

TEST_F(ErrorsNameInternalAddressesTest, AFieldErrorNamesItsFieldInTheDetails) {
  Serve();
  v1::GenerateRequest request = Request(5);
  request.mutable_sampling()->set_top_p(2);
  const grpc::Status status = Generate(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto details = DetailOf<v1::BadRequest>(status, "BadRequest");
  ASSERT_EQ(details.field_violations_size(), 1);
  EXPECT_EQ(details.field_violations(0).field(), "sampling.top_p");
  EXPECT_THAT(details.field_violations(0).description(), HasSubstr("must be in"));
  EXPECT_THAT(DetailOf<v1::RequestInfo>(status, "RequestInfo").request_id(), HasSubstr("req-"));
}

TEST_F(ErrorsNameInternalAddressesTest, LongStringsOfClientsAreNotEchoed) {
  Serve();
  for (const auto set : {+[](v1::GenerateRequest&r, const std::string&s) { r.set_model(s); },
                         +[](v1::GenerateRequest&r, const std::string&s) { r.set_request_id(s); },
                         +[](v1::GenerateRequest&r, const std::string&s) {
                           r.mutable_speculation()->set_policy(s);
                         }}) {
    v1::GenerateRequest request = Request(5);
    set(request, std::string(50000, 'x'));
    const grpc::Status status = Generate(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_LT(status.error_message().size(), 200u);
    EXPECT_LT(status.error_details().size(), 500u);
  }
}

}  // namespace
}  // namespace bastion
