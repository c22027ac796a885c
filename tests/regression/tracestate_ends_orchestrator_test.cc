// With tracing, one call could end the orchestrator, also without a token: the service sent the
// call's tracestate back, and gRPC ends the process over metadata with a tab, although it receives
// such metadata.
#include <memory>
#include <optional>

#include "gtest/gtest.h"
#include "tests/orchestrator/api/hosted_service_fixture.h"
#include "tests/support/fake_span_sink.h"
#include "tests/support/http2_client.h"

namespace bastion {
namespace {

using testing::Http2Client;
using TracestateTest = testing::HostedServiceTest;

TEST_F(TracestateTest, WithBytesThatMetadataCannotHaveIsNotSentBack) {
  testing::SpanLog log;
  tracer_ = std::make_unique<Tracer>(TracerOptions{.interval = absl::Hours(1)},
                                     std::make_unique<testing::FakeSpanSink>(&log));
  Serve();
  for (const char* state : {"a=1,\tb=2", "a=\x80"}) {
    Http2Client attacker(host_->port(), /*window=*/1 << 20);
    const uint32_t stream =
        attacker.Call(testing::kGeneratePath, Request(3).SerializeAsString(),
                      {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                       {"tracestate", state}});
    std::optional<Http2Client::Frame> frame;
    do {
      frame = attacker.Read();
    } while (frame.has_value() && !(frame->stream == stream && frame->ends_stream()));
    EXPECT_TRUE(frame.has_value()) << "the call did not end";
    const grpc::Status status = Generate(Request(3));
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  host_->Shutdown(absl::ZeroDuration());
  tracer_.reset();
}

}  // namespace
}  // namespace bastion
