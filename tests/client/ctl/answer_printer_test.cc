#include "client/ctl/answer_printer.h"

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

v1::GenerateResponse Delta(int answer, const std::string& text) {
  v1::GenerateResponse event;
  event.mutable_delta()->set_answer(answer);
  event.mutable_delta()->set_text(text);
  return event;
}

v1::GenerateResponse Finished(int answer) {
  v1::GenerateResponse event;
  event.mutable_finished()->set_answer(answer);
  event.mutable_finished()->set_seed(100 + answer);
  return event;
}

TEST(AnswerPrinterTest, ASingleAnswerIsPrintedAsItArrivesWithoutAHeading) {
  std::ostringstream text, statistics;
  AnswerPrinter printer(1, &text, &statistics);
  printer.Print(Delta(0, "one "));
  EXPECT_EQ(text.str(), "one ");
  printer.Print(Delta(0, "two"));
  EXPECT_EQ(text.str(), "one two");
  EXPECT_EQ(statistics.str(), "");
  printer.Print(Finished(0));
  EXPECT_EQ(text.str(), "one two\n");
  EXPECT_THAT(statistics.str(), HasSubstr("seed 100"));
  EXPECT_EQ(printer.first(), "one two");
}

TEST(AnswerPrinterTest, MixedAnswersArePrintedOneAfterAnother) {
  std::ostringstream text;
  AnswerPrinter printer(3, &text, nullptr);
  printer.Print(Delta(2, "c"));
  printer.Print(Delta(0, "a"));
  printer.Print(Delta(1, "b"));
  EXPECT_EQ(text.str(), "---- answer 1 of 3 ----\na");
  printer.Print(Finished(2));
  printer.Print(Finished(0));
  EXPECT_EQ(text.str(), "---- answer 1 of 3 ----\na\n---- answer 2 of 3 ----\nb");
  printer.Print(Delta(1, "bb"));
  printer.Print(Finished(1));
  EXPECT_EQ(text.str(),
            "---- answer 1 of 3 ----\na\n---- answer 2 of 3 ----\nbbb\n"
            "---- answer 3 of 3 ----\nc\n");
}

}  // namespace
}  // namespace bastion
