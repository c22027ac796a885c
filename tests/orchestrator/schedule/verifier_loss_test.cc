#include "orchestrator/schedule/verifier_loss.h"

#include "gmock/gmock.h"
#include "tests/orchestrator/schedule/running_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class VerifierLossTest : public testing::RunningTest {
 protected:
  void SetUp() override {
    Start(/*pages=*/100);
    // They have different clients, so neither waits for the other.
    for (const char* id : {"a", "b"}) Push({.client = id, .id = id});
    ASSERT_TRUE(Admit().ok());
    ASSERT_THAT(Running(), UnorderedElementsAre("a", "b"));
  }
  LiveRequest& Request(const std::string& id) {
    for (const auto& request : running_->all()) {
      if (request->request().request_id == id) return *request;
    }
    ADD_FAILURE() << id << " does not run";
    return *running_->all().front();
  }
  // The verifier is lost in a call of this request, and returns a while later.
  void LoseIn(const std::string& id) {
    loss_->SetLastCall({.decoding = {&Request(id)}, .chunks = {}});
    loss_->Lose(absl::UnavailableError("the stream broke"));
    EXPECT_FALSE(link_->connected());
    EXPECT_TRUE(running_->empty());
    clock_.Advance(LiveRequest::kLossInterval);
    Connect();
    ASSERT_TRUE(Admit().ok());
  }
};

TEST_F(VerifierLossTest, RunningRequestsWaitForTheVerifier) {
  loss_->Lose(absl::UnavailableError("the stream broke"));
  EXPECT_EQ(queue_.counts().waiting, 2);
  EXPECT_EQ(queue_.counts().running, 0);
  Connect();
  ASSERT_TRUE(Admit().ok());
  EXPECT_THAT(Running(), UnorderedElementsAre("a", "b"));
}

TEST_F(VerifierLossTest, OnlyTheRequestsOfTheLastCallCountALoss) {
  LoseIn("a");
  EXPECT_EQ(Request("a").losses(), 1);
  EXPECT_EQ(Request("b").losses(), 0);
  loss_->Lose(absl::UnavailableError("the stream broke"));
  Connect();
  ASSERT_TRUE(Admit().ok());
  EXPECT_EQ(Request("a").losses(), 1) << "nothing was called since";
}

TEST_F(VerifierLossTest, ARequestOfSeveralLostCallsIsTheSuspect) {
  LoseIn("a");
  EXPECT_EQ(loss_->Suspect(), nullptr);
  LoseIn("a");
  EXPECT_EQ(loss_->Suspect(), &Request("a"));
  LoseIn("b");
  LoseIn("a");
  LoseIn("b");
  EXPECT_EQ(loss_->Suspect(), &Request("b")) << "the one with fewer losses runs first";
}

TEST_F(VerifierLossTest, ARequestThatEndsTheVerifierAgainAndAgainFails) {
  for (int i = 0; i < 4; ++i) LoseIn("a");
  EXPECT_THAT(Running(), ElementsAre("b"));
  EXPECT_THAT(ends_.ended(), ElementsAre(absl::StatusCode::kUnavailable));
}

TEST_F(VerifierLossTest, AllRequestsFailWhenThePatienceEnds) {
  loss_->Lose(absl::UnavailableError("the stream broke"));
  clock_.Advance(options_.verifier_patience - absl::Seconds(1));
  loss_->CheckPatience();
  EXPECT_EQ(queue_.counts().waiting, 2);
  clock_.Advance(absl::Seconds(1));
  loss_->CheckPatience();
  EXPECT_EQ(queue_.counts().waiting, 0);
  EXPECT_EQ(ends_.ended().size(), 2u);
}

TEST_F(VerifierLossTest, ALossAfterAnAnswerBeginsANewWait) {
  loss_->Lose(absl::UnavailableError("the stream broke"));
  clock_.Advance(options_.verifier_patience - absl::Seconds(1));
  Connect();
  loss_->EndWait();
  ASSERT_TRUE(Admit().ok());
  loss_->Lose(absl::UnavailableError("the stream broke"));
  clock_.Advance(absl::Seconds(2));
  loss_->CheckPatience();
  EXPECT_EQ(queue_.counts().waiting, 2);
}

}  // namespace
}  // namespace bastion
