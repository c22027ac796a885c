// A client that opened no flow-control window held a thread of the server for every call, also
// after the answer had ended and also for calls with a single reply. With one connection, it kept
// all others out for as long as it liked, and health stayed SERVING.
#include <atomic>
#include <set>
#include <thread>

#include "tests/orchestrator/api/hosted_service_fixture.h"
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
    // The attacker would answer pings.
    host_options_.connections.keepalive = absl::InfiniteDuration();
  }

  // Sends the calls of `attacker`, whose window is closed, and expects that all of them end.
  void ExpectCallsEnd(Http2Client& attacker, const std::string& path, const std::string& message) {
    std::set<uint32_t> running;
    for (int i = 0; i < kCalls; ++i) running.insert(attacker.Call(path, message));
    while (!running.empty()) {
      const auto frame = attacker.Read();
      ASSERT_TRUE(frame.has_value()) << running.size() << " calls did not end";
      if (frame->ends_stream()) running.erase(frame->stream);
    }
    EXPECT_TRUE(Await([&] { return Generate(Request(3)).ok(); }));
    EXPECT_TRUE(AwaitIdle());
  }
};

TEST_F(SilentReadersHoldThreadsTest, AnswersThatHaveEnded) {
  Serve();
  Http2Client attacker(host_->port(), /*window=*/0);
  ExpectCallsEnd(attacker, kGeneratePath, Request(1).SerializeAsString());
}

TEST_F(SilentReadersHoldThreadsTest, AnswersThatAreStillGenerated) {
  verifier_.fake()->max_context = 8192;
  Serve();
  Http2Client attacker(host_->port(), /*window=*/0);
  ExpectCallsEnd(attacker, kGeneratePath, Request(500).SerializeAsString());
}

TEST_F(SilentReadersHoldThreadsTest, CallsWithOneReply) {
  Serve();
  Http2Client attacker(host_->port(), /*window=*/0);
  ExpectCallsEnd(attacker, kInfoPath, "");
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
  Serve();
  const auto stub = Connect();
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, Request(100));
  v1::GenerateResponse event;
  while (reader->Read(&event)) absl::SleepFor(options_.slow_client / 16);
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace bastion
