// StageShell with a scripted stream, and with a stream over shared memory.
#include "common/host/stage_shell.h"

#include <grpcpp/test/server_context_test_spouse.h>

#include <atomic>
#include <deque>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/wire/attach_fixture.h"

namespace bastion::wire {
namespace {

using internal::v1::VerifierReply;
using internal::v1::VerifierRequest;
using ::testing::HasSubstr;
using Messages = MessageStream<VerifierReply, VerifierRequest>;

// Receives `requests` in order, then ends. Keeps what is sent.
class ScriptedStream final : public Messages {
 public:
  explicit ScriptedStream(std::deque<int> steps, int max_replies = 100)
      : steps_(std::move(steps)), max_replies_(max_replies) {}

  absl::Status Send(const VerifierReply& reply, absl::Time) override {
    if (replies.size() == max_replies_) return absl::UnavailableError("the peer is gone");
    replies.push_back(reply);
    return absl::OkStatus();
  }
  absl::Status Receive(VerifierRequest* request, absl::Time) override {
    if (steps_.empty()) return absl::UnavailableError("the peer is gone");
    request->set_step(steps_.front());
    steps_.pop_front();
    return absl::OkStatus();
  }
  bool supports_deadlines() const override { return false; }
  void Cancel() override {}
  Carrier& carrier() override { return carrier_; }

  std::vector<VerifierReply> replies;

 private:
  std::deque<int> steps_;
  const size_t max_replies_;
  InlineCarrier carrier_;
};

class StageShellTest : public AttachFixture {
 protected:
  // A shell that offers shared memory.
  std::unique_ptr<StageShell> MakeShell() {
    auto server = AttachServer::Start(options_);
    EXPECT_TRUE(server.ok()) << server.status();
    return std::make_unique<StageShell>("verifier", *std::move(server), Security::None());
  }
  static grpc::Status Attach(StageShell& shell, const AttachRequest& request, AttachReply& reply,
                             std::function<absl::Status(Messages&)> serve) {
    grpc::ServerContext context;
    grpc::testing::ServerContextTestSpouse metadata(&context);
    metadata.AddClientMetadata(kProtocolKey, absl::StrCat(kProtocolVersion));
    return shell.Attach<VerifierReply, VerifierRequest>({&context, &request, &reply},
                                                        Right::kVerify, AttachRequest::STREAM_STEPS,
                                                        std::move(serve));
  }
};

TEST_F(StageShellTest, EachReplyHasTheStepAndTheStatusOfItsRequest) {
  StageShell shell("verifier", nullptr, Security::None());
  ScriptedStream stream({3, 4});
  shell.ServeSteps<VerifierReply, VerifierRequest>(
      stream, [](const VerifierRequest& request, absl::Duration, VerifierReply& reply) {
        reply.set_reused_tokens(10 * static_cast<int>(request.step()));
        return request.step() == 3 ? absl::OkStatus() : absl::NotFoundError("no such sequence");
      });
  ASSERT_EQ(stream.replies.size(), 2u);
  EXPECT_EQ(stream.replies[0].step(), 3u);
  EXPECT_EQ(stream.replies[0].reused_tokens(), 30);
  EXPECT_EQ(stream.replies[0].status().code(), 0);
  EXPECT_EQ(stream.replies[1].step(), 4u);
  EXPECT_EQ(stream.replies[1].status().message(), "no such sequence");
}

TEST_F(StageShellTest, AnExceptionFailsItsStepOnlyAndNamesTheService) {
  StageShell shell("verifier", nullptr, Security::None());
  ScriptedStream stream({1, 2});
  shell.ServeSteps<VerifierReply, VerifierRequest>(
      stream, [](const VerifierRequest& request, absl::Duration, VerifierReply& reply) {
        reply.set_reused_tokens(7);
        if (request.step() == 1) throw std::runtime_error("a reason for the log");
        return absl::OkStatus();
      });
  ASSERT_EQ(stream.replies.size(), 2u);
  EXPECT_EQ(stream.replies[0].status().code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_THAT(stream.replies[0].status().message(), HasSubstr("in the verifier"));
  EXPECT_EQ(stream.replies[0].step(), 1u);
  EXPECT_EQ(stream.replies[0].reused_tokens(), 0) << "half a reply must not be sent";
  EXPECT_EQ(stream.replies[1].status().code(), 0);
}

TEST_F(StageShellTest, APeerThatTakesNoReplyEndsTheStream) {
  StageShell shell("verifier", nullptr, Security::None());
  ScriptedStream stream({1, 2, 3}, /*max_replies=*/1);
  int steps = 0;
  shell.ServeSteps<VerifierReply, VerifierRequest>(
      stream, [&](const VerifierRequest&, absl::Duration, VerifierReply&) {
        ++steps;
        return absl::OkStatus();
      });
  EXPECT_EQ(steps, 2);
}

TEST_F(StageShellTest, WithoutSharedMemoryAttachSaysHowToEnableIt) {
  StageShell shell("verifier", nullptr, Security::None());
  AttachReply reply;
  const grpc::Status refused =
      Attach(shell, ValidRequest(), reply, [](Messages&) { return absl::OkStatus(); });
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("--shared_memory"));
}

TEST_F(StageShellTest, APeerOfAnotherProtocolIsRefusedFirst) {
  StageShell shell("verifier", nullptr, Security::None());
  grpc::ServerContext context;  // Without a version.
  internal::v1::DrafterInfo reply;
  EXPECT_EQ(shell.GetInfo(context, Right::kDraft, DrafterInfo(), reply).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(StageShellTest, AStreamOfAnotherKindIsRefused) {
  const auto shell = MakeShell();
  AttachRequest request = ValidRequest();
  request.set_stream(AttachRequest::STREAM_FEATURES);
  AttachReply reply;
  EXPECT_EQ(Attach(*shell, request, reply, [](Messages&) { return absl::OkStatus(); }).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(StageShellTest, TheEndOfTheShellEndsAnOpenStreamAfterItsStep) {
  auto shell = MakeShell();
  std::atomic<bool> ended{false};
  AttachReply offer;
  const auto serve = [&ended, server = shell.get()](Messages& stream) {
    server->ServeSteps<VerifierReply, VerifierRequest>(
        stream,
        [](const VerifierRequest&, absl::Duration, VerifierReply&) { return absl::OkStatus(); });
    ended = true;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Attach(*shell, ValidRequest(), offer, serve).ok());
  auto ends = AcceptOffer(offer);
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  VerifierRequest request;
  request.set_step(5);
  VerifierReply reply;
  ASSERT_TRUE(channel.Send(request, absl::Now() + kLongTimeout).ok());
  ASSERT_TRUE(channel.Receive(&reply, absl::Now() + kLongTimeout).ok());
  EXPECT_EQ(reply.step(), 5u);
  EXPECT_FALSE(ended);
  shell.reset();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(channel.Receive(&reply, absl::Now() + kLongTimeout).ok());
}

}  // namespace
}  // namespace bastion::wire
