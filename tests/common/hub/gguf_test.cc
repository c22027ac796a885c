// Tests GGUF files as models: the reader, and what it makes of metadata, tensors and tokenizers.
#include <cstring>
#include <fstream>

#include "common/hub/chat_template.h"
#include "common/hub/checkpoint.h"
#include "common/hub/gguf_file.h"
#include "common/hub/json_file.h"
#include "common/hub/model_config.h"
#include "common/hub/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_fixture.h"
#include "tests/support/golden_file.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using ::testing::Contains;
using testing::CountingFloats;
using ::testing::ElementsAre;
using testing::GgufFixture;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

// A Llama model with one layer, and one tensor of it.
GgufFixture SmallLlama() {
  GgufFixture file;
  file.metadata = {{"general.architecture", "llama"},
                   {"llama.block_count", 1},
                   {"llama.context_length", 64},
                   {"llama.embedding_length", 32},
                   {"llama.feed_forward_length", 64},
                   {"llama.attention.head_count", 2},
                   {"llama.attention.layer_norm_rms_epsilon", 1e-5},
                   {"llama.rope.freq_base", 500000.0},
                   {"tokenizer.ggml.model", "gpt2"},
                   {"tokenizer.ggml.pre", "gpt-2"},
                   {"tokenizer.ggml.tokens", {"a", "b", "<|im_end|>", "<|im_start|>"}},
                   {"tokenizer.ggml.token_type", {1, 1, 3, 3}},
                   {"tokenizer.ggml.merges", nlohmann::json::array({"a b"})},
                   {"tokenizer.ggml.bos_token_id", 3},
                   {"tokenizer.ggml.eos_token_id", 0},
                   {"tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}"}};
  file.metadata["tokenizer.ggml.merges"] = {"a b"};
  file.metadata["tokenizer.ggml.tokens"].push_back("ab");
  file.metadata["tokenizer.ggml.token_type"].push_back(1);
  file.tensors = {{"token_embd.weight", 0, {5, 32}, CountingFloats(160)}};
  return file;
}

class GgufTest : public ::testing::Test {
 protected:
  std::string Write(const GgufFixture& file, const std::string& name = "model.gguf") {
    folder_.Write(name, file.Bytes());
    return folder_.File(name);
  }
  void ExpectRefused(const GgufFixture& file, absl::StatusCode code, const std::string& text) {
    const absl::Status status = Checkpoint::Open(Write(file)).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(text));
    EXPECT_THAT(status.message(), HasSubstr(folder_.File("model.gguf")));
  }
  void ExpectConfigRefused(const GgufFixture& file, absl::StatusCode code,
                           const std::string& text) {
    const absl::Status status = ReadTargetConfig(Write(file)).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
  TempFolder folder_;
};

void ExpectSameConfig(const ModelConfig& actual, const ModelConfig& expected) {
  EXPECT_EQ(actual.architecture, expected.architecture);
  EXPECT_EQ(actual.dims.layers, expected.dims.layers);
  EXPECT_EQ(actual.dims.hidden, expected.dims.hidden);
  EXPECT_EQ(actual.dims.query_heads, expected.dims.query_heads);
  EXPECT_EQ(actual.dims.kv_heads, expected.dims.kv_heads);
  EXPECT_EQ(actual.dims.head_dim, expected.dims.head_dim);
  EXPECT_EQ(actual.dims.intermediate, expected.dims.intermediate);
  EXPECT_EQ(actual.dims.vocabulary, expected.dims.vocabulary);
  EXPECT_EQ(actual.max_positions, expected.max_positions);
  EXPECT_EQ(actual.tie_word_embeddings, expected.tie_word_embeddings);
  EXPECT_FLOAT_EQ(static_cast<float>(actual.blocks.norm_epsilon),
                  static_cast<float>(expected.blocks.norm_epsilon));
  EXPECT_EQ(actual.blocks.rope.theta, expected.blocks.rope.theta);
  EXPECT_EQ(actual.blocks.rope.dims, expected.blocks.rope.dims);
  EXPECT_EQ(actual.blocks.qkv_bias, expected.blocks.qkv_bias);
  EXPECT_EQ(actual.blocks.parallel_residual, expected.blocks.parallel_residual);
  EXPECT_EQ(actual.blocks.experts.count, expected.blocks.experts.count);
  EXPECT_EQ(actual.blocks.experts.chosen, expected.blocks.experts.chosen);
  EXPECT_EQ(actual.expert_layers, expected.expert_layers);
  EXPECT_EQ(actual.blocks.rope.layers, expected.blocks.rope.layers);
}

// Every tensor of the folder is in the file, with the same rows in the same order.
TEST_F(GgufTest, HasTheConfigAndTensorsOfTheFolder) {
  for (const char* name : {"llama_default_rope", "neox_parallel", "moe_normalized", "qwen2_yarn",
                           "smollm3_no_rope_layers", "gqa2_untied_draft2"}) {
    SCOPED_TRACE(name);
    const std::string folder = testing::GoldenFolder(name) + "/target";
    const std::string path = Write(testing::GgufOfFolder(folder));
    const auto expected_config = ReadTargetConfig(folder), config = ReadTargetConfig(path);
    ASSERT_TRUE(config.ok()) << config.status();
    ExpectSameConfig(*config, *expected_config);
    const auto expected = Checkpoint::Open(folder), actual = Checkpoint::Open(path);
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_EQ((*actual)->TensorNames(), (*expected)->TensorNames());
    for (const std::string& tensor : (*expected)->TensorNames()) {
      const auto from = (*expected)->Find(tensor);
      const auto view = (*actual)->Tensor(tensor, from->shape);
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ(view->dtype, from->dtype);
      EXPECT_EQ(std::memcmp(view->data, from->data, from->bytes), 0) << tensor;
    }
    EXPECT_THAT((*actual)->UnreadTensors(), ElementsAre());
    EXPECT_EQ((*actual)->Identity()->size(), 32u);
  }
}

TEST_F(GgufTest, ReadsVersion2AndEveryFormat) {
  GgufFixture file = SmallLlama();
  file.version = 2;
  const std::pair<uint32_t, BlockFormat> kTypes[] = {
      {2, BlockFormat::kQ4_0},  {3, BlockFormat::kQ4_1}, {6, BlockFormat::kQ5_0},
      {7, BlockFormat::kQ5_1},  {8, BlockFormat::kQ8_0}, {12, BlockFormat::kQ4_K},
      {13, BlockFormat::kQ5_K}, {14, BlockFormat::kQ6_K}};
  for (const auto& [type, blocks] : kTypes) {
    const BlockShape shape = ShapeOf(blocks);
    file.tensors.push_back({Name(blocks),
                            type,
                            {3, 2 * shape.elements},
                            std::string(6 * shape.bytes, static_cast<char>(type))});
  }
  const auto checkpoint = Checkpoint::Open(Write(file));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const auto& [type, blocks] : kTypes) {
    const auto view = (*checkpoint)->Tensor(Name(blocks), {3, 2 * ShapeOf(blocks).elements});
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->blocks, blocks);
    EXPECT_EQ(view->bytes, static_cast<size_t>(6 * ShapeOf(blocks).bytes));
    EXPECT_EQ(static_cast<const char*>(view->data)[view->bytes - 1], static_cast<char>(type));
  }
}

TEST_F(GgufTest, TruncatedFilesAreRefused) {
  const std::string bytes = SmallLlama().Bytes();
  for (size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 37) {
    folder_.Write("model.gguf", bytes.substr(0, size));
    EXPECT_EQ(GgufFile::Open(folder_.File("model.gguf")).status().code(), kInvalid) << size;
  }
  EXPECT_TRUE(GgufFile::Open(Write(SmallLlama())).ok());
}

TEST_F(GgufTest, UnknownFormatsAreRefusedByName) {
  GgufFixture file = SmallLlama();
  file.version = 1;
  ExpectRefused(file, kUnimplemented, "GGUF version 1");
  file.version = __builtin_bswap32(3);
  ExpectRefused(file, kUnimplemented, "big-endian");
  file = SmallLlama();
  file.tensors.push_back({"blk.0.attn_q.weight", 16, {1, 256}, std::string(66, 0)});
  ExpectRefused(file, kUnimplemented, "tensor 'blk.0.attn_q.weight' has the type IQ2_XXS");
  file = SmallLlama();
  file.metadata["general.architecture"] = "mamba";
  ExpectRefused(file, kUnimplemented, "'general.architecture' is 'mamba'");
}

TEST_F(GgufTest, DamagedFilesAreRefused) {
  GgufFixture file = SmallLlama();
  file.tensors.push_back({"x", 8, {2, 48}, std::string(4 * 34, 0)});
  ExpectRefused(file, kInvalid, "tensor 'x' has rows of 48 elements, but blocks of 32");
  file = SmallLlama();
  file.tensors.push_back(file.tensors[0]);
  ExpectRefused(file, kInvalid, "tensor 'token_embd.weight' occurs twice");
  file = SmallLlama();
  file.tensors.push_back({"blk.0.attn_q.weight", 0, {20, 32}, CountingFloats(640)});
  ExpectRefused(file, kInvalid, "'blk.0.attn_q.weight' has 20 rows, but heads have 16");
  file = SmallLlama();
  file.metadata["general.alignment"] = 12;
  ExpectRefused(file, kInvalid, "'general.alignment' is 12");
  file = SmallLlama();
  file.metadata.erase("llama.embedding_length");
  ExpectRefused(file, kInvalid, "'llama.embedding_length' is missing");
}

TEST_F(GgufTest, ConfigComesFromTheMetadata) {
  const auto config = ReadTargetConfig(Write(SmallLlama()));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->dims.vocabulary, 5);
  EXPECT_EQ(config->dims.head_dim, 16);
  EXPECT_EQ(config->dims.kv_heads, 2);
  EXPECT_EQ(config->blocks.norm_epsilon, 1e-5);
  EXPECT_EQ(config->blocks.rope.theta, 500000);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_THAT(config->special.bos, ElementsAre(3));
  EXPECT_THAT(config->special.eos, ElementsAre(0, 2)) << "<|im_end|> always ends an answer";
}

TEST_F(GgufTest, ConfigsThatTheEnginesDoNotImplementAreRefused) {
  GgufFixture file = SmallLlama();
  file.metadata["llama.attention.sliding_window"] = 32;
  ExpectConfigRefused(file, kUnimplemented, "'llama.attention.sliding_window'");
  file = SmallLlama();
  file.metadata["llama.rope.dimension_count"] = 8;
  ExpectConfigRefused(file, kUnimplemented, "'llama.rope.dimension_count' is 8");
  file = SmallLlama();
  file.metadata["llama.rope.scaling.type"] = "longrope";
  file.metadata["llama.rope.scaling.factor"] = 4.0;
  ExpectConfigRefused(file, kUnimplemented, "'longrope'");
  file = SmallLlama();
  file.metadata["llama.block_count"] = "one";
  ExpectConfigRefused(file, kInvalid, "'llama.block_count' must be a 32-bit integer");
}

TEST_F(GgufTest, RotaryScalingComesFromMetadataOrDivisors) {
  GgufFixture file = SmallLlama();
  file.metadata["llama.rope.scaling.type"] = "yarn";
  file.metadata["llama.rope.scaling.factor"] = 4.0;
  file.metadata["llama.rope.scaling.original_context_length"] = 16;
  auto config = ReadTargetConfig(Write(file));
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->blocks.rope.yarn.has_value());
  EXPECT_EQ(config->blocks.rope.yarn->factor, 4);
  EXPECT_EQ(config->blocks.rope.yarn->original_positions, 16);
  file = SmallLlama();
  file.tensors.push_back({"rope_freqs.weight", 0, {8}, CountingFloats(9).substr(sizeof(float))});
  config = ReadTargetConfig(Write(file));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->blocks.rope.divisors, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT((*Checkpoint::Open(folder_.File("model.gguf")))->TensorNames(),
              ElementsAre("model.embed_tokens.weight"));
  file.tensors.back().shape = {4};
  file.tensors.back().data.resize(16);
  ExpectConfigRefused(file, kInvalid, "'factors' must be 8 positive numbers");
}

TEST_F(GgufTest, ChatTemplateAndSpecialTokensComeFromTheMetadata) {
  const auto chat = ChatTemplate::Load(Write(SmallLlama()));
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render({{"user", "hi"}}, true), "<|im_start|>hi");
  GgufFixture file = SmallLlama();
  file.metadata.erase("tokenizer.chat_template");
  EXPECT_TRUE(absl::IsNotFound(ChatTemplate::Load(Write(file)).status()));
}

TEST_F(GgufTest, TokenizersEqualTheirOriginals) {
  std::ifstream text(BASTION_SOURCE_DIR "/tests/common/hub/goldens/gguf_tokenizers.json");
  const auto cases = nlohmann::json::parse(text);
  EXPECT_EQ(cases.size(), 7u);
  for (const auto& [name, golden] : cases.items()) {
    SCOPED_TRACE(name);
    GgufFixture file = SmallLlama();
    for (const char* key : {"tokenizer.ggml.merges", "tokenizer.ggml.pre"})
      file.metadata.erase(key);
    file.metadata.update(golden["metadata"]);
    const auto tokenizer = Tokenizer::Load(Write(file));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (size_t i = 0; i < golden["texts"].size(); ++i) {
      const auto ids = tokenizer->Encode(golden["texts"][i].get<std::string>(), true);
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_EQ(*ids, golden["ids"][i].get<std::vector<TokenId>>()) << golden["texts"][i];
      const auto plain = tokenizer->Encode(golden["texts"][i].get<std::string>(), false);
      EXPECT_EQ(*tokenizer->Decode(*plain, false), golden["decoded"][i].get<std::string>());
    }
  }
}

TEST_F(GgufTest, TokenizersThatAreNotSupportedAreRefusedByName) {
  const auto refused = [&](const char* key, const nlohmann::json& value, absl::StatusCode code,
                           const std::string& text) {
    GgufFixture file = SmallLlama();
    file.metadata[key] = value;
    const absl::Status status = Tokenizer::Load(Write(file)).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(text));
  };
  refused("tokenizer.ggml.pre", "tekken", kUnimplemented, "is 'tekken'; supported: gpt-2, smollm");
  refused("tokenizer.ggml.model", "bert", kUnimplemented, "is 'bert'; supported: gpt2, llama");
  refused("tokenizer.ggml.token_type", {1, 1}, kInvalid, "has 2 elements for 5 tokens");
  refused("tokenizer.ggml.tokens", {"a", "a", "b", "c", "d"}, kInvalid, "contains 'a' twice");
  refused("tokenizer.ggml.model", "llama", kInvalid, "'tokenizer.ggml.scores' is missing");
}

// The parts of a split file are read together. A part that is not the first is refused.
TEST_F(GgufTest, ReadsSplitFiles) {
  GgufFixture first = SmallLlama(), second;
  first.metadata["split.count"] = 2;
  first.metadata["split.no"] = 0;
  second.metadata = {{"split.count", 2}, {"split.no", 1}};
  second.tensors = {{"output_norm.weight", 0, {32}, CountingFloats(32)}};
  const std::string path = Write(first, "m-00001-of-00002.gguf");
  EXPECT_TRUE(absl::IsNotFound(Checkpoint::Open(path).status()));
  const std::string other = Write(second, "m-00002-of-00002.gguf");
  const auto checkpoint = Checkpoint::Open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->TensorNames(), Contains("model.norm.weight"));
  const absl::Status status = Checkpoint::Open(other).status();
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("part 2 of 2; pass the first part"));
}

TEST_F(GgufTest, OtherFilesAreRefused) {
  folder_.Write("notes.txt", "hello");
  const absl::Status status = ReadTargetConfig(folder_.File("notes.txt")).status();
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("neither a folder nor a GGUF file"));
  const std::string path = Write(SmallLlama());
  EXPECT_TRUE(absl::IsNotFound(ReadTextFile(path + "/merges.txt").status()));
}

}  // namespace
}  // namespace bastion::hub
