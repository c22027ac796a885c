// Constraints on the demo pair, in process: every answer belongs to its language, and its text does
// not depend on the policy, the batch, or reused prefixes.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "gtest/gtest.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/intake/grammar_constraint.h"
#include "orchestrator/intake/served_model.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/linear_costs.h"
#include "tools/bench/prompts.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

using nlohmann::json;

const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model";
constexpr size_t kPrompts = 5;
constexpr int kMaxTokens = 200;  // Every language is bounded, so answers end before.

struct Language {
  const char* name;
  hub::GrammarKind kind;
  const char* text;
  bool (*contains)(const std::string& answer);
};

bool IsPerson(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_object() && value.size() == 2 && value["name"].is_string() &&
         value["name"].get<std::string>().size() <= 4 * 12 && value["age"].is_number_integer() &&
         value["age"] >= 0 && value["age"] <= 150;
}

bool IsColors(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  if (!value.is_array() || value.empty() || value.size() > 4) return false;
  for (const json& color : value) {
    if (color != "red" && color != "green" && color != "dark blue") return false;
  }
  return true;
}

bool IsTable(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  if (!value.is_object() || value.size() != 1 || !value["rows"].is_array()) return false;
  for (const json& row : value["rows"]) {
    if (row.size() != 2 || !row["ok"].is_boolean()) return false;
    if (!row["note"].is_null() && row["note"] != "none") return false;
  }
  return value["rows"].size() <= 3;
}

bool IsDate(const std::string& text) {
  return std::regex_match(text, std::regex("[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]"));
}

bool IsSum(const std::string& text) {
  return std::regex_match(text, std::regex("[0-9]{1,3}( \\+ [0-9]{1,3}){1,3}"));
}

const Language kLanguages[] = {
    {"person", hub::GrammarKind::kJsonSchema,
     R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
         "age": {"type": "integer", "minimum": 0, "maximum": 150}},
         "required": ["name", "age"], "additionalProperties": false})",
     IsPerson},
    {"colors", hub::GrammarKind::kJsonSchema,
     R"({"type": "array", "items": {"enum": ["red", "green", "dark blue"]},
         "minItems": 1, "maxItems": 4})",
     IsColors},
    {"table", hub::GrammarKind::kJsonSchema,
     R"({"type": "object", "properties": {"rows": {"type": "array", "maxItems": 3, "items":
         {"type": "object", "properties": {"ok": {"type": "boolean"},
          "note": {"anyOf": [{"type": "null"}, {"const": "none"}]}},
          "required": ["ok", "note"], "additionalProperties": false}}},
         "required": ["rows"], "additionalProperties": false})",
     IsTable},
    {"date", hub::GrammarKind::kRegex, R"([0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9])", IsDate},
    {"sum", hub::GrammarKind::kLark, "start: NUMBER (\" + \" NUMBER){1,3}\nNUMBER: /[0-9]{1,3}/",
     IsSum},
};

class ConstrainedTextTest : public ::testing::TestWithParam<Language> {
 protected:
  static void SetUpTestSuite() {
    LocalOptions options;
    options.target_folder = kModels + "/target";
    options.drafter_folder = kModels + "/drafter";
    options.formats.weights = "fp32";
    options.device.threads = 2;
    options.memory.reuse_prefixes = true;
    auto stages = LocalStages::Create(options);
    CHECK(stages.ok()) << stages.status();
    stages_ = *std::move(stages);
    auto prompts = LoadPrompts(kModels + "/prompts.jsonl", options.target_folder);
    CHECK(prompts.ok()) << prompts.status();
    prompts_ = *std::move(prompts);
    CHECK_GE(prompts_.size(), kPrompts);
    auto model = ServedModel::Load(options.target_folder);
    CHECK(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  static void TearDownTestSuite() {
    stages_.reset();
    model_.reset();
  }

  void SetUp() override {
    const hub::ModelConfig& config = model_->config;
    const auto compiler =
        hub::GrammarCompiler::Create(model_->tokenizer, config.dims.vocabulary, config.special.eos);
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    auto state = compiler->Compile(GetParam().kind, GetParam().text);
    ASSERT_TRUE(state.ok()) << state.status();
    constraint_ = std::make_shared<GrammarConstraint>(*std::move(state), &model_->tokenizer);
  }

  DecodeSequence Make(size_t prompt, const std::string& policy, float temperature) {
    static uint64_t session = 1;
    DecodeRequest request;
    request.id = {session++, 0};
    request.prompt = prompts_[prompt].tokens;
    request.sampling = {{.temperature = temperature, .seed = prompt}};
    request.max_tokens = kMaxTokens;
    request.stop_tokens.insert(model_->config.special.eos.begin(),
                               model_->config.special.eos.end());
    request.constraint = constraint_;
    return DecodeSequence(std::move(request),
                          Policy::Parse(policy)->NewRequest(temperature == 0, &costs_, &memory_));
  }

  // The texts of all prompts, decoded `batch` at a time.
  std::vector<std::string> Decode(const std::string& policy, float temperature, size_t batch) {
    std::vector<std::string> texts;
    for (size_t begin = 0; begin < kPrompts; begin += batch) {
      std::vector<DecodeSequence> sequences;
      sequences.reserve(batch);
      for (size_t i = begin; i < std::min(begin + batch, kPrompts); ++i) {
        DecodeSequence& sequence = sequences.emplace_back(Make(i, policy, temperature));
        cycle_.Open(sequence);
        while (cycle_.Prefill(sequence, 4096)) {
        }
      }
      for (;;) {
        Batch running;
        for (DecodeSequence& sequence : sequences) {
          if (!sequence.done()) running.push_back(&sequence);
        }
        if (running.empty()) break;
        EXPECT_TRUE(cycle_.Step(running).ok());
      }
      for (const DecodeSequence& sequence : sequences) {
        EXPECT_TRUE(sequence.status().ok()) << sequence.status();
        cycles_ += sequence.cycles().size();
        cycle_.Close(sequence, stages_->drafter());
        texts.push_back(*model_->tokenizer.Decode(sequence.output(), /*skip_special=*/true));
      }
    }
    return texts;
  }

  static inline std::unique_ptr<LocalStages> stages_;
  static inline std::unique_ptr<ServedModel> model_;
  static inline std::vector<BenchPrompt> prompts_;

  std::shared_ptr<const TokenConstraint> constraint_;
  CostModel costs_ = testing::LinearCosts();
  SharedLearning memory_;
  DecodeCycle cycle_{stages_->verifier_engine().info(), &stages_->drafter(), &stages_->verifier(),
                     &costs_};
  size_t cycles_ = 0;
};

TEST_P(ConstrainedTextTest, AnswersBelongToTheLanguageUnderEveryPolicyAndBatch) {
  for (const float temperature : {0.0F, 1.0F}) {
    const std::vector<std::string> plain = Decode("ar", temperature, 1);
    for (const std::string& text : plain) {
      EXPECT_TRUE(GetParam().contains(text)) << GetParam().name << ": " << text;
    }
    for (const char* policy : {"default", "fixed:16", "chain", "ngram:8"}) {
      for (const size_t batch : {size_t{1}, kPrompts}) {
        EXPECT_EQ(Decode(policy, temperature, batch), plain) << policy << ", batch " << batch;
      }
    }
  }
}

TEST_P(ConstrainedTextTest, TreesSaveCycles) {
  (void)Decode("ar", 0, 1);
  const size_t plain = std::exchange(cycles_, 0);
  (void)Decode("fixed:16", 0, 1);
  EXPECT_LT(cycles_, plain);
}

INSTANTIATE_TEST_SUITE_P(Languages, ConstrainedTextTest, ::testing::ValuesIn(kLanguages),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace bastion
