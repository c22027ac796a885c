// A client that opened no flow-control window held a thread of the server for every call, also
// after the answer had ended and also for calls with a single reply. With one connection, it kept
// all others out for as long as it liked, and health stayed SERVING.
#include <atomic>
#include <thread>

#include "tests/orchestrator/serve/hosted_service_fixture.h"
#include "tests/support/http2_client.h"

namespace bastion {
namespace {

using testing::Http2Client;
using testing::kGeneratePath;
using testing::kInfoPath;

// More than the server has threads.
constexpr int kCalls = 12;

class SilentReadersHoldThreadsTest : public testing::HostedServiceTest {
 protected:
  SilentReadersHoldThreadsTest() {
    options_.slow_client = absl::Milliseconds(300);
    host_options_.max_threads = 8;
  }

  void ExpectOthersAreServed() {
    EXPECT_TRUE(Await([&] { return Generate(Request(3)).ok(); }));
    EXPECT_TRUE(AwaitIdle());
  }
};

TEST_F(SilentReadersHoldThreadsTest, AnswersThatHaveEnded) {
  Serve();
  Http2Client attacker(host_->port(), /*window=*/0);
  for (int i = 0; i < kCalls; ++i) attacker.Call(kGeneratePath, Request(1).SerializeAsString());
  ExpectOthersAreServed();
}

TEST_F(SilentReadersHoldThreadsTest, AnswersThatAreStillGenerated) {
  verifier_.fake()->max_context = 8192;
  Serve();
  Http2Client attacker(host_->port(), /*window=*/0);
  for (int i = 0; i < kCalls; ++i) attacker.Call(kGeneratePath, Request(500).SerializeAsString());
  ExpectOthersAreServed();
}

TEST_F(SilentReadersHoldThreadsTest, CallsWithOneReply) {
  Serve();
  Http2Client attacker(host_->port(), /*window=*/0);
  for (int i = 0; i < kCalls; ++i) attacker.Call(kInfoPath, "");
  ExpectOthersAreServed();
}

// Each message alone is read in time, but the rest of the answer is not.
TEST_F(SilentReadersHoldThreadsTest, AnAnswerThatIsReadBitByBitAfterItsEnd) {
  Serve();
  Http2Client attacker(host_->port(), /*window=*/0);
  v1::GenerateRequest request = Request(20);
  request.set_n(64);
  const uint32_t stream = attacker.Call(kGeneratePath, request.SerializeAsString());
  std::atomic<bool> over{false};
  int openings = 0;  // All messages together need more than 200.
  std::thread reader([&] {
    for (; openings < 1000 && !over; ++openings) {
      attacker.OpenWindow(stream, 64);
      absl::SleepFor(options_.slow_client / 8);
    }
  });
  std::optional<Http2Client::Frame> frame;
  do {
    frame = attacker.Read();
  } while (frame.has_value() && !(frame->stream == stream && frame->ends_stream()));
  over = true;
  reader.join();
  EXPECT_TRUE(frame.has_value()) << "the call did not end";
  EXPECT_LT(openings, 100);
}

TEST_F(SilentReadersHoldThreadsTest, AClientThatReadsIsNotCanceled) {
  verifier_.fake()->max_context = 8192;
  Serve();
  const auto stub = Connect();
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, Request(500));
  v1::GenerateResponse event;
  while (reader->Read(&event)) absl::SleepFor(options_.slow_client / 16);
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace bastion
