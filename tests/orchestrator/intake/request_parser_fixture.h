// A parser for a small served model, and a request.
#ifndef BASTION_TESTS_ORCHESTRATOR_INTAKE_REQUEST_PARSER_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_INTAKE_REQUEST_PARSER_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/intake/request_parser.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::testing {

inline constexpr int kContext = 32;
inline constexpr NodeCap kNodeCap = {.on_cpu = 24};

class RequestParserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("config.json", ServedConfigJson(kContext).dump());
    folder_.Write("tokenizer.json", ByteLevelTokenizerJson().dump());
    auto model = ServedModel::Load(folder_.path());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    parser_ = std::make_unique<RequestParser>(model_.get(), *Policy::Parse("fixed:16"),
                                              ParserOptions{.node_cap = kNodeCap});
    request_.set_text("the cat");
  }

  absl::StatusOr<PreparedRequest> Parse() { return parser_->Parse(request_); }

  // Expects INVALID_ARGUMENT with a message that contains `field`.
  void ExpectRefused(const std::string& field) {
    const absl::Status status = Parse().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(field));
  }
  void SetTokens(const std::vector<TokenId>& ids) {
    request_.mutable_tokens()->mutable_ids()->Assign(ids.begin(), ids.end());
  }

  TempFolder folder_;
  std::unique_ptr<ServedModel> model_;
  std::unique_ptr<RequestParser> parser_;
  v1::GenerateRequest request_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_INTAKE_REQUEST_PARSER_FIXTURE_H_
