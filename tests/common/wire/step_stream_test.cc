// Tests StepStream over both transports against a small drafter service. The service can be late,
// answer with old step numbers, stop and start again.
#include "common/wire/step_stream.h"

#include <atomic>
#include <thread>

#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/host/service_host.h"
#include "common/wire/attach_server.h"
#include "common/wire/codec.h"
#include "common/wire/open_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;
using ::testing::HasSubstr;
using ServerStream = MessageStream<proto::DrafterReply, proto::DrafterRequest>;

constexpr absl::Duration kLongTimeout = absl::Seconds(20);
constexpr absl::Duration kShortTimeout = absl::Milliseconds(60);

Marginals MarginalsFor(const Frontier& frontier) {
  Marginals made;
  made.positions = frontier.committed;
  made.candidates = frontier.candidates;
  for (int i = 0; i < made.positions * made.candidates; ++i) {
    made.tokens.push_back(i % 250000 * 7919 + frontier.root);
    made.log_probs.push_back(-static_cast<float>(i) / 3);
  }
  // Every other drafter has a rank head.
  if (frontier.root % 2 == 0) {
    for (int p = 0; p < made.positions; ++p) made.buckets.push_back(p % kRankBuckets);
  }
  return made;
}

// Answers an Expand with marginals, and a Close of session n with n drafts, so that the tests can
// tell replies apart. A Close of session 0 ends the stream. While held, it does not answer.
class Echo final : public proto::DrafterService::Service {
 public:
  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) override {
    if (const absl::Status version = CheckProtocol(*context); !version.ok()) return ToGrpc(version);
    GrpcServerStream<proto::DrafterReply, proto::DrafterRequest> steps(context, stream);
    return ToGrpc(Serve(steps));
  }
  grpc::Status Attach(grpc::ServerContext*, const AttachRequest* request,
                      AttachReply* reply) override {
    if (attach == nullptr) return {grpc::StatusCode::UNIMPLEMENTED, "off"};
    const auto serve = [this](std::shared_ptr<SharedChannel> channel) {
      SharedStream<proto::DrafterReply, proto::DrafterRequest> steps(std::move(channel));
      return Serve(steps);
    };
    return ToGrpc(attach->Offer(*request, serve, *reply));
  }

  void Hold(bool hold) { held_ = hold; }
  void AwaitAnswered(int count) {
    const absl::Time deadline = absl::Now() + kLongTimeout;
    while (answered_ < count && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  }
  int answered() const { return answered_; }

  std::unique_ptr<AttachServer> attach;

 private:
  absl::Status Serve(ServerStream& stream) {
    proto::DrafterRequest request;
    while (stream.Receive(&request, absl::InfiniteFuture()).ok()) {
      const int session = static_cast<int>(request.close().sequence().session());
      if (request.has_close() && session == 0) return absl::AbortedError("session 0 was closed");
      while (held_) absl::SleepFor(absl::Milliseconds(1));
      proto::DrafterReply late;
      late.set_step(request.step() - 1);  // The client no longer waits for this step.
      (void)stream.Send(late, absl::InfiniteFuture());
      proto::DrafterReply reply;
      reply.set_step(request.step());
      for (int i = 0; i < session; ++i) reply.add_drafts();
      for (const auto& frontier : request.expand().frontiers()) {
        Encode(Draft{{MarginalsFor(Decode(frontier))}}, stream.carrier(), *reply.add_drafts());
      }
      (void)stream.Send(reply, absl::InfiniteFuture());
      ++answered_;
    }
    return absl::OkStatus();
  }

  std::atomic<bool> held_ = false;
  std::atomic<int> answered_ = 0;
};

class StepStreamTest : public ::testing::TestWithParam<CarrierChoice> {
 protected:
  void SetUp() override { StartPeer(); }
  void TearDown() override {
    echo_.Hold(false);
    StopPeer();
  }

  void StartPeer() {
    HostOptions options;
    options.addresses = {address_};
    options.reflection = false;
    if (GetParam() == CarrierChoice::kAuto) {
      auto attach = StartAttachServer(folder_.File("shm"), "echo");
      ASSERT_TRUE(attach.ok()) << attach.status();
      echo_.attach = *std::move(attach);
    }
    auto host = ServiceHost::Start(options, {&echo_});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  void StopPeer() {
    host_.reset();
    echo_.attach.reset();
  }

  static proto::DrafterRequest Request(int session) {
    proto::DrafterRequest request;
    request.mutable_close()->mutable_sequence()->set_session(session);
    return request;
  }
  absl::Status Call(int session, absl::Duration timeout = kLongTimeout) {
    const auto reply = stream_.Call(Request(session), timeout);
    if (reply.ok()) {
      EXPECT_EQ(reply->drafts_size(), session) << "this reply belongs to another call";
    }
    return reply.status();
  }
  // Expands `count` frontiers and expects marginals of shape [positions, candidates] for each.
  void ExpectMarginals(int positions, int candidates, int count = 1) {
    proto::DrafterRequest request;
    std::vector<Frontier> frontiers(count);
    for (int i = 0; i < count; ++i) {
      frontiers[i].committed = positions;
      frontiers[i].candidates = candidates;
      frontiers[i].root = 1000 * i;
      Encode(frontiers[i], *request.mutable_expand()->add_frontiers());
    }
    const auto reply = stream_.Call(std::move(request), kLongTimeout);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->drafts_size(), count);
    for (int i = 0; i < count; ++i) {
      const auto draft = Decode(reply->drafts(i), stream_.carrier());
      ASSERT_TRUE(draft.ok()) << draft.status();
      EXPECT_EQ(draft->marginals.at(0), MarginalsFor(frontiers[i]));
    }
  }

  const testing::TempFolder folder_;
  const std::string address_ = "unix:" + folder_.File("echo.sock");
  Echo echo_;
  std::unique_ptr<ServiceHost> host_;
  std::unique_ptr<proto::DrafterService::Stub> stub_ =
      proto::DrafterService::NewStub(ConnectPeer(address_));
  Attacher attacher_{address_, GetParam(), AttachRequest::STREAM_STEPS,
                     [this](auto* context, const auto& request, auto* reply) {
                       return stub_->Attach(context, request, reply);
                     }};
  StepStream<proto::DrafterRequest, proto::DrafterReply> stream_{
      "the echo", [this](absl::Time deadline) {
        return OpenTimedStream<proto::DrafterRequest, proto::DrafterReply>(
            attacher_,
            [this](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
              return stub_->PrepareAsyncSteps(context, queue);
            },
            deadline);
      }};
};

TEST_P(StepStreamTest, EachCallGetsItsReply) {
  EXPECT_FALSE(stream_.connected());
  for (int session = 1; session <= 20; ++session) {
    const absl::Status status = Call(session);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(stream_.connected());
}

TEST_P(StepStreamTest, UsesTheChosenCarrier) {
  ASSERT_TRUE(Call(1).ok());
  TensorRef reference;
  stream_.carrier().Put({TensorRef::DTYPE_INT32, {1}}, "1234", reference);
  EXPECT_EQ(reference.carrier_case(),
            GetParam() == CarrierChoice::kAuto ? TensorRef::kSlot : TensorRef::kInline);
}

TEST_P(StepStreamTest, TensorsArriveUnchanged) {
  ExpectMarginals(1, 1);
  ExpectMarginals(7, 64);
  ExpectMarginals(15, 1024, 16);
  ExpectMarginals(3, 5, 100);
  ExpectMarginals(30, 65000);  // 15.6 MB, close to the message limit.
  ExpectMarginals(15, 64);
}

TEST_P(StepStreamTest, ManyMessagesArrive) {
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(Call(1 + i % 3).ok()) << i;
  for (int i = 0; i < 300; ++i) ExpectMarginals(1 + i % 15, 1 + i * 7 % 500);
}

TEST_P(StepStreamTest, ALateReplyIsDropped) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  const absl::Status late = Call(2, kShortTimeout);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(late.message(), HasSubstr("the echo"));
  EXPECT_TRUE(stream_.connected());
  echo_.Hold(false);
  echo_.AwaitAnswered(2);
  EXPECT_TRUE(Call(3).ok());  // Call() checks that the reply belongs to it.
  EXPECT_TRUE(Call(4).ok());
}

TEST_P(StepStreamTest, TheStreamSurvivesSeveralTimeouts) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  for (int session = 2; session < 6; ++session) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(Call(session, kShortTimeout)));
  }
  echo_.Hold(false);
  EXPECT_TRUE(Call(6).ok());
}

TEST_P(StepStreamTest, APostIsDeliveredAndItsReplyDropped) {
  stream_.Post(Request(1), kLongTimeout);  // No stream is open, so this does nothing.
  EXPECT_FALSE(stream_.connected());
  ASSERT_TRUE(Call(2).ok());
  stream_.Post(Request(3), kLongTimeout);
  stream_.Post(Request(4), kLongTimeout);
  EXPECT_TRUE(Call(5).ok());
  echo_.AwaitAnswered(4);
  EXPECT_EQ(echo_.answered(), 4);
}

TEST_P(StepStreamTest, APostIsDeliveredWithoutALaterCall) {
  ASSERT_TRUE(Call(1).ok());
  stream_.Post(Request(2), kLongTimeout);
  echo_.AwaitAnswered(2);
  EXPECT_EQ(echo_.answered(), 2);
}

TEST_P(StepStreamTest, APostToABlockedPeerDoesNotWait) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  const absl::Time start = absl::Now();
  stream_.Post(Request(2), kLongTimeout);
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  echo_.Hold(false);
  EXPECT_TRUE(Call(3).ok());
}

TEST_P(StepStreamTest, AStoppedPeerIsUnavailable) {
  ASSERT_TRUE(Call(1).ok());
  StopPeer();
  const absl::Status status = Call(2);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(stream_.connected());
  EXPECT_FALSE(Call(3).ok());  // Within the retry interval, the call fails without an attempt.
}

TEST_P(StepStreamTest, APeerThatStopsDuringACallIsUnavailable) {
  ASSERT_TRUE(Call(1).ok());
  echo_.Hold(true);
  std::thread killer([&] {
    absl::SleepFor(kShortTimeout);
    StopPeer();
  });
  const absl::Status status = Call(2);
  echo_.Hold(false);  // Shutdown waits for the handler.
  killer.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_P(StepStreamTest, ReconnectsWhenThePeerReturns) {
  ASSERT_TRUE(Call(1).ok());
  StopPeer();
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

TEST_P(StepStreamTest, ACallReturnsTheErrorWithWhichThePeerEndedTheStream) {
  ASSERT_TRUE(Call(1).ok());
  const absl::Status status = Call(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(status.message(), HasSubstr("session 0 was closed"));
  EXPECT_FALSE(stream_.connected());
}

TEST_P(StepStreamTest, ACallerWithADifferentVersionIsRefused) {
  grpc::ClientContext context;
  context.AddMetadata(kProtocolKey, "999");
  const auto steps = stub_->Steps(&context);
  proto::DrafterReply reply;
  EXPECT_FALSE(steps->Read(&reply));
  const grpc::Status status = steps->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("version 999"));
}

// A base for streams without a peer.
class FakeStream : public MessageStream<proto::DrafterRequest, proto::DrafterReply> {
 public:
  bool supports_deadlines() const override { return true; }
  void Cancel() override {}
  Carrier& carrier() override { return carrier_; }

 private:
  InlineCarrier carrier_;
};

// Always has a reply to an earlier step.
class OldReplies final : public FakeStream {
 public:
  absl::Status Send(const proto::DrafterRequest&, absl::Time) override { return absl::OkStatus(); }
  absl::Status Receive(proto::DrafterReply* reply, absl::Time) override {
    reply->set_step(0);
    return absl::OkStatus();
  }
};

TEST(StepStreamFloodTest, ACallTimesOutInAFloodOfOldReplies) {
  StepStream<proto::DrafterRequest, proto::DrafterReply> stream(
      "the flood", [](absl::Time) { return std::make_unique<OldReplies>(); });
  const absl::Status status = stream.Call({}, kShortTimeout).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(stream.connected());
}

TEST(StepStreamFloodTest, ACallEndsWhenThePeerIsLostInAFloodOfOldReplies) {
  int checks = 0;
  StepStream<proto::DrafterRequest, proto::DrafterReply> stream(
      "the flood", [](absl::Time) { return std::make_unique<OldReplies>(); },
      [&] { return ++checks < 3 ? absl::OkStatus() : absl::UnavailableError("lost"); });
  const absl::Status status = stream.Call({}, kLongTimeout).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(stream.connected());
}

// Takes no messages and sends none.
class HungPeer final : public FakeStream {
 public:
  absl::Status Send(const proto::DrafterRequest&, absl::Time deadline) override {
    absl::SleepFor(deadline - SteadyNow());
    return absl::DeadlineExceededError("not sent");
  }
  absl::Status Receive(proto::DrafterReply*, absl::Time) override {
    return absl::InternalError("nothing was sent");
  }
};

TEST(StepStreamHungPeerTest, ACallEndsWhenThePeerIsLostBeforeItTakesTheRequest) {
  int checks = 0;
  StepStream<proto::DrafterRequest, proto::DrafterReply> stream(
      "the peer", [](absl::Time) { return std::make_unique<HungPeer>(); },
      [&] { return ++checks < 3 ? absl::OkStatus() : absl::UnavailableError("hangs"); });
  const absl::Status status = stream.Call({}, absl::InfiniteDuration()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(stream.connected());
}

TEST(StepStreamRetryTest, ACallerWhoKnowsThatThePeerIsBackDoesNotWait) {
  int attempts = 0;
  StepStream<proto::DrafterRequest, proto::DrafterReply> stream("the peer", [&](absl::Time) {
    ++attempts;
    return absl::UnavailableError("gone");
  });
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(stream.Call({}, kShortTimeout).ok());
  EXPECT_EQ(attempts, 1);
  stream.RetryAtOnce();
  EXPECT_FALSE(stream.Call({}, kShortTimeout).ok());
  EXPECT_EQ(attempts, 2);
}

INSTANTIATE_TEST_SUITE_P(Carriers, StepStreamTest,
                         ::testing::Values(CarrierChoice::kInline, CarrierChoice::kAuto),
                         [](const auto& info) {
                           return info.param == CarrierChoice::kInline ? "Grpc" : "SharedMemory";
                         });

}  // namespace
}  // namespace bastion::wire
