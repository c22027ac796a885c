// Prompts were tokenized, and chats rendered, before any limit was checked: also while the service
// was full or not ready. A prompt of 4 MB took 1.4 GB and seconds of a core.
#include <gmock/gmock.h>

#include "orchestrator/intake/request_intake.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

class PromptsAreTokenizedBeforeLimitsTest : public testing::SchedulerTest {
 protected:
  // The error of a request that is valid up to its text, which is not: tokenizing would find that.
  absl::Status Enter(const v1::GenerateRequest& request) {
    return RequestIntake(&parser_, scheduler_.get()).Enter(request, {}).status();
  }
  // A text that the tokenizer refuses.
  static v1::GenerateRequest NotUtf8() {
    v1::GenerateRequest request;
    request.set_text("caf\xe9");
    return request;
  }

  const testing::ServedModelFixture model_;
  const RequestParser parser_{&model_.model(), *Policy::Parse("ar")};
};

TEST_F(PromptsAreTokenizedBeforeLimitsTest, WhileTheServiceIsNotReady) {
  verifier_.SetUnavailable(true);
  Start();
  EXPECT_TRUE(absl::IsUnavailable(Enter(NotUtf8()))) << Enter(NotUtf8());
}

TEST_F(PromptsAreTokenizedBeforeLimitsTest, WhileTheServiceDrains) {
  StartAndAwaitReady();
  EXPECT_TRUE(absl::IsInvalidArgument(Enter(NotUtf8()))) << Enter(NotUtf8());
  scheduler_->Drain(absl::ZeroDuration());
  EXPECT_TRUE(absl::IsUnavailable(Enter(NotUtf8()))) << Enter(NotUtf8());
}

TEST_F(PromptsAreTokenizedBeforeLimitsTest, WhileTheQueueIsFull) {
  options_.max_running = 1;
  options_.max_waiting = 1;
  StartAndAwaitReady();
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams = {Submit({})};
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
  streams.push_back(Submit({}));
  EXPECT_TRUE(absl::IsResourceExhausted(Enter(NotUtf8()))) << Enter(NotUtf8());
  verifier_.Hold(false);
  for (const auto& stream : streams) EXPECT_TRUE(testing::ReadAll(*stream).status.ok());
}

TEST_F(PromptsAreTokenizedBeforeLimitsTest, LongTextsAndManyMessages) {
  StartAndAwaitReady();
  v1::GenerateRequest request = NotUtf8();
  request.mutable_text()->append(4 << 20, '1');
  EXPECT_THAT(std::string(Enter(request).message()), HasSubstr("text: has 4194308 bytes"));
  for (int i = 0; i < 1025; ++i) request.mutable_chat()->add_messages();
  EXPECT_THAT(std::string(Enter(request).message()), HasSubstr("chat.messages: has 1025 messages"));
}

}  // namespace
}  // namespace bastion
