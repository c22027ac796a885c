// The stream of step messages against a small drafter service on a socket of its own, which is
// late, answers under old step numbers, dies and returns as the test wants it.
#include "common/wire/step_stream.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/wire/service_host.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;
using ::testing::HasSubstr;
using Stream = StepStream<proto::DrafterRequest, proto::DrafterReply>;

constexpr absl::Duration kLong = absl::Seconds(20);
constexpr absl::Duration kShort = absl::Milliseconds(60);

// Answers a Close with one draft per session number, so that a reply can be told from another.
// While held, it keeps requests waiting; a session of 0 ends the stream.
class Echo final : public proto::DrafterService::Service {
 public:
  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) override {
    if (const absl::Status spoken = CheckProtocol(*context); !spoken.ok()) return ToGrpc(spoken);
    proto::DrafterRequest request;
    while (stream->Read(&request)) {
      const int session = static_cast<int>(request.close().sequence().session());
      if (session == 0) return {grpc::StatusCode::ABORTED, "had enough"};
      while (held_) absl::SleepFor(absl::Milliseconds(1));
      proto::DrafterReply reply;
      for (int i = 0; i < session; ++i) reply.add_drafts();
      reply.set_step(request.step() - 1);  // Nobody waits for this one any more.
      stream->Write(reply);
      reply.set_step(request.step());
      stream->Write(reply);
      ++answered_;
    }
    return grpc::Status::OK;
  }

  void Hold(bool hold) { held_ = hold; }
  void AwaitAnswered(int count) {
    const absl::Time deadline = absl::Now() + kLong;
    while (answered_ < count && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  }
  int answered() const { return answered_; }

 private:
  std::atomic<bool> held_ = false;
  std::atomic<int> answered_ = 0;
};

class StepStreamTest : public ::testing::Test {
 protected:
  void SetUp() override { StartPeer(); }
  void TearDown() override {
    echo_.Hold(false);
    host_.reset();
    unlink(path_.c_str());
  }

  void StartPeer() {
    HostOptions options;
    options.addresses = {"unix:" + path_};
    options.reflection = false;
    auto host = ServiceHost::Start(options, {&echo_});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }

  static proto::DrafterRequest Request(int session) {
    proto::DrafterRequest request;
    request.mutable_close()->mutable_sequence()->set_session(session);
    return request;
  }
  absl::Status Call(int session, absl::Duration patience = kLong) {
    const auto reply = stream_.Call(Request(session), patience);
    if (reply.ok()) {
      EXPECT_EQ(reply->drafts_size(), session) << "another call's reply";
    }
    return reply.status();
  }

  const std::string path_ = "/tmp/bastion_step_" + std::to_string(getpid()) + "_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            ".sock";
  Echo echo_;
  std::unique_ptr<ServiceHost> host_;
  std::unique_ptr<proto::DrafterService::Stub> stub_ =
      proto::DrafterService::NewStub(ConnectPeer("unix:" + path_));
  Stream stream_{"the echo", [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
                   return stub_->PrepareAsyncSteps(context, queue);
                 }};
};

TEST_F(StepStreamTest, CallsAreAnsweredOneByOne) {
  EXPECT_FALSE(stream_.connected());
  for (int session = 1; session <= 20; ++session) {
    const absl::Status status = Call(session);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(stream_.connected());
}

TEST_F(StepStreamTest, ALateReplyIsDroppedByItsStepNumber) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  const absl::Status late = Call(2, kShort);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(late.message(), HasSubstr("the echo"));
  EXPECT_TRUE(stream_.connected());
  echo_.Hold(false);
  echo_.AwaitAnswered(2);
  EXPECT_TRUE(Call(3).ok());  // Call() checks that the reply is its own.
  EXPECT_TRUE(Call(4).ok());
}

TEST_F(StepStreamTest, SeveralLateCallsInARowLeaveTheStreamUsable) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  for (int session = 2; session < 6; ++session) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(Call(session, kShort)));
  }
  echo_.Hold(false);
  EXPECT_TRUE(Call(6).ok());
}

TEST_F(StepStreamTest, APostIsDeliveredAndItsReplyDropped) {
  stream_.Post(Request(1), kLong);  // Without a stream it does nothing.
  EXPECT_FALSE(stream_.connected());
  ASSERT_TRUE(Call(2).ok());
  stream_.Post(Request(3), kLong);
  stream_.Post(Request(4), kLong);
  EXPECT_TRUE(Call(5).ok());
  echo_.AwaitAnswered(4);
  EXPECT_EQ(echo_.answered(), 4);
}

TEST_F(StepStreamTest, APostIsDeliveredWithoutAnyFurtherCall) {
  ASSERT_TRUE(Call(1).ok());
  stream_.Post(Request(2), kLong);
  echo_.AwaitAnswered(2);
  EXPECT_EQ(echo_.answered(), 2);
}

TEST_F(StepStreamTest, APostToAHangingPeerDoesNotWait) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  const absl::Time start = absl::Now();
  stream_.Post(Request(2), kLong);
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  echo_.Hold(false);
  EXPECT_TRUE(Call(3).ok());
}

TEST_F(StepStreamTest, APeerThatDiesIsUnavailable) {
  ASSERT_TRUE(Call(1).ok());
  host_.reset();
  const absl::Status status = Call(2);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(stream_.connected());
  EXPECT_FALSE(Call(3).ok());  // At once: the next attempt comes after a pause.
}

TEST_F(StepStreamTest, APeerThatDiesDuringACallIsUnavailable) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  std::thread killer([&] {
    absl::SleepFor(kShort);
    std::thread release([&] {
      absl::SleepFor(kShort);
      echo_.Hold(false);  // Shutdown waits for the handler.
    });
    host_.reset();
    release.join();
  });
  const absl::Status status = Call(2);
  killer.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(StepStreamTest, ItConnectsAgainWhenThePeerReturns) {
  ASSERT_TRUE(Call(1).ok());
  host_.reset();
  EXPECT_FALSE(Call(2).ok());
  StartPeer();
  absl::Status status;
  for (int attempt = 0; attempt < 100; ++attempt) {
    status = Call(3, absl::Seconds(1));
    if (status.ok()) break;
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Call(4).ok());
}

TEST_F(StepStreamTest, AStreamThatThePeerEndsGivesItsReason) {
  ASSERT_TRUE(Call(1).ok());
  const absl::Status status = Call(0);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(stream_.connected());
}

TEST_F(StepStreamTest, ACallerOfAnotherVersionIsRefused) {
  grpc::ClientContext context;
  context.AddMetadata(kProtocolKey, "999");
  const auto steps = stub_->Steps(&context);
  proto::DrafterReply reply;
  EXPECT_FALSE(steps->Read(&reply));
  const grpc::Status status = steps->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("version 999"));
}

}  // namespace
}  // namespace bastion::wire
