#include "client/ctl/explain.h"

#include <cmath>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

google::protobuf::Duration Micros(int32_t micros) {
  google::protobuf::Duration duration;
  duration.set_nanos(1000 * micros);
  return duration;
}

// A cycle that drafted one node, which was accepted.
v1::CycleReport Cycle() {
  v1::CycleReport cycle;
  cycle.set_nodes(1);
  cycle.set_committed_length(2);
  cycle.set_budget_reason("cost");
  cycle.set_rows(2);
  cycle.set_share(1);
  *cycle.mutable_predicted_verify() = Micros(900);
  *cycle.mutable_measured_verify() = Micros(1000);
  *cycle.mutable_draft() = Micros(500);
  *cycle.mutable_verify() = Micros(1000);
  v1::VerifiedTree& tree = *cycle.mutable_verified_tree();
  tree.set_root_text("def");
  v1::VerifiedTree::Node& node = *tree.add_nodes();
  node.set_text(" main");
  node.set_path_probability(0.75);
  node.set_source(v1::NODE_SOURCE_DRAFT);
  node.set_accepted(true);
  tree.set_next_text("(\n");
  return cycle;
}

v1::CycleReport PlainCycle() {
  v1::CycleReport cycle;
  cycle.set_committed_length(1);
  cycle.set_budget_reason("exploration");
  cycle.mutable_verified_tree()->set_next_text("x");
  return cycle;
}

v1::GenerateResponse Delta(const std::string& text, const std::vector<v1::CycleReport>& cycles) {
  v1::GenerateResponse event;
  event.mutable_delta()->set_text(text);
  for (const v1::CycleReport& cycle : cycles) *event.mutable_delta()->add_cycles() = cycle;
  return event;
}

std::string Printed(const v1::GenerateResponse& event) {
  std::ostringstream out;
  Explainer({}, {}, &out).Print(event);
  return out.str();
}

TEST(Explain, ACycleShowsItsBudgetTimesAndTree) {
  EXPECT_EQ(Printed(Delta("", {Cycle()})),
            "cycle 1: 2 tokens  ·main(\\n\n"
            "  budget  1 node (cost: the next node, a draft or planning would take more time than "
            "it saves)\n"
            "  verify  1.00 ms, predicted 0.90 ms (-10 %)\n"
            "  cycle   1.50 ms: draft 0.50, verify 1.00\n"
            "                        def\n"
            "  ✓   75.0 %  draft     ┗━ ·main\n"
            "  +           target      ┗━ (\\n\n"
            "\n");
}

TEST(Explain, APlainCycleIsOneLine) {
  const std::string printed = Printed(Delta("", {PlainCycle(), PlainCycle()}));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 2);
  EXPECT_THAT(printed, HasSubstr("cycle 2: 1 token  x  plain decoding (exploration), verify "));
}

TEST(Explain, AForwardWithOtherRequestsShowsTheShareOfThisOne) {
  v1::CycleReport cycle = Cycle();
  cycle.set_rows(8);
  cycle.set_share(0.25);
  EXPECT_THAT(Printed(Delta("", {cycle})), HasSubstr("for 8 rows, 25 % of them for this request"));
}

TEST(Explain, AnAnswerThatEndsInsideThePathCommitsOnlyItsTokens) {
  v1::CycleReport cycle = Cycle();
  EXPECT_THAT(CommittedTexts(cycle), ElementsAre(" main", "(\n"));
  cycle.set_committed_length(1);
  EXPECT_THAT(CommittedTexts(cycle), ElementsAre(" main"));
  cycle.set_committed_length(1000000);
  EXPECT_THAT(CommittedTexts(cycle), ElementsAre(" main", "(\n"));
  cycle.clear_verified_tree();
  EXPECT_THAT(CommittedTexts(cycle), ElementsAre());
}

TEST(Explain, TheEndShowsTheAnswerAndItsTotals) {
  v1::GenerateResponse end;
  v1::Finished& finished = *end.mutable_finished();
  finished.mutable_usage()->set_completion_tokens(30);
  *finished.mutable_timings()->mutable_decode() = Micros(10000);
  finished.mutable_speculation()->set_policy("default");
  finished.mutable_speculation()->set_cycles(10);
  finished.mutable_speculation()->set_mean_committed_length(3);
  finished.mutable_speculation()->set_verify_prediction_error_median(0.07);
  v1::DraftTotals& totals = *finished.mutable_totals();
  for (const v1::NodeSource source : {v1::NODE_SOURCE_DRAFT, v1::NODE_SOURCE_REQUEST}) {
    v1::DraftTotals::Source& nodes = *totals.add_sources();
    nodes.set_source(source);
    nodes.set_nodes(40);
    nodes.set_accepted(10);
    nodes.set_expected(9.5);
  }
  (*totals.mutable_budget_reasons())["rows"] = 1;
  (*totals.mutable_budget_reasons())["cost"] = 9;
  *totals.mutable_predicted_verify() = Micros(5500);
  *totals.mutable_measured_verify() = Micros(5000);

  std::ostringstream out;
  Explainer explainer({}, {}, &out);
  explainer.Print(Delta("two\nlines", {}));
  explainer.Print(end);
  EXPECT_EQ(
      out.str(),
      "answer:\ntwo\nlines\n\n"
      "totals: 30 tokens in 10 cycles (policy default), 3.00 tokens per cycle, "
      "3000.0 tokens/s\n"
      "  source           nodes  accepted  expected\n"
      "  draft               40        10       9.5\n"
      "  request             40        10       9.5\n"
      "  all                 80        20      19.0\n"
      "  cost          9 cycles  the next node, a draft or planning would take more time than "
      "it saves\n"
      "  rows           1 cycle  the rows of one forward\n"
      "  verify  5.00 ms, predicted 5.50 ms (+10 %); median error of a cycle 7 %\n");
  EXPECT_EQ(explainer.explanation().answer, "two\nlines");
}

TEST(Explain, NothingThatTheServerSendsControlsTheTerminal) {
  const std::string attack = "\x1b[2J\x9b";
  v1::CycleReport cycle = Cycle();
  cycle.set_budget_reason(attack);
  cycle.mutable_verified_tree()->set_next_text(attack);
  v1::GenerateResponse end;
  end.mutable_finished()->mutable_speculation()->set_policy(attack);
  (*end.mutable_finished()->mutable_totals()->mutable_budget_reasons())[attack] = 1;
  std::ostringstream out;
  Explainer explainer({}, {}, &out);
  explainer.Print(Delta(attack, {cycle}));
  explainer.Print(end);
  EXPECT_THAT(out.str(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(out.str(), Not(HasSubstr("\x9b")));
  EXPECT_THAT(out.str(), HasSubstr("answer:\n\\x1b[2J\\x9b\n"));
}

TEST(Explain, APredictionIsComparedWithTheMeasuredTime) {
  EXPECT_EQ(PercentTooHigh(3, 2), 50);
  EXPECT_EQ(PercentTooHigh(1, 2), -50);
  EXPECT_EQ(PercentTooHigh(1, 0), 0);
  EXPECT_FALSE(std::signbit(PercentTooHigh(0.999, 1)));
}

TEST(Explain, AllBudgetReasonsHaveAMeaning) {
  for (const char* reason : {"policy", "cost", "confidence", "request_limit", "server_limit",
                             "rows", "share", "length", "exploration", "exhausted", "no_draft"}) {
    EXPECT_THAT(BudgetReasonMeaning(reason), HasSubstr(" ")) << reason;
  }
  EXPECT_EQ(BudgetReasonMeaning("new\n"), "new\\n");
}

}  // namespace
}  // namespace bastion
