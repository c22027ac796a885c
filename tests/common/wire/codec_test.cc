#include "common/wire/codec.h"

#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

using ::testing::HasSubstr;

constexpr SequenceId kSequence = {0xFEDCBA9876543210, 0xFFFFFFFF};

DraftTree RandomTree(std::mt19937& random, int nodes) {
  DraftTree tree(static_cast<TokenId>(random() % 1000));
  for (int i = 0; i < nodes; ++i) {
    const auto parent = NodeIndex::Of(random() % tree.rows());
    tree.Add(parent, 1000 + i, tree.log_score(parent) - 0.25f);
  }
  return tree;
}

// Encodes `value` into a message, serializes and parses the message, and decodes it.
template <typename Proto, typename T>
auto RoundTrip(const T& value) {
  Proto encoded, received;
  Encode(value, encoded);
  EXPECT_TRUE(received.ParseFromString(encoded.SerializeAsString()));
  return Decode(received);
}

TEST(CodecTest, RoundTripsSequenceIds) {
  EXPECT_EQ(RoundTrip<proto::SequenceId>(kSequence), kSequence);
}

TEST(CodecTest, RoundTripsStatuses) {
  EXPECT_TRUE(RoundTrip<proto::StepStatus>(absl::OkStatus()).ok());
  const absl::Status error = absl::ResourceExhaustedError("64 sequences are open");
  EXPECT_EQ(RoundTrip<proto::StepStatus>(error), error);
}

TEST(CodecTest, AnUnknownStatusCodeIsStillAnError) {
  proto::StepStatus status;
  status.set_code(4711);
  EXPECT_FALSE(Decode(status).ok());
  status.set_code(-1);
  EXPECT_FALSE(Decode(status).ok());
}

TEST(CodecTest, RoundTripsSamplingParams) {
  SamplingParams sampling = {{0.7f, std::numeric_limits<uint64_t>::max(), 40, 0.9f, 0.05f}};
  sampling.repetition_penalty = 1.2f;
  sampling.presence_penalty = -0.5f;
  sampling.frequency_penalty = 0.25f;
  sampling.logit_bias = {{3, 1.5f}, {9, -100.0f}};
  sampling.prompt_tokens = 11;
  sampling.min_tokens = 4;
  sampling.stop_tokens = {0, 2};
  proto::SamplingParams encoded;
  Encode(sampling, encoded);
  EXPECT_EQ(*Decode(encoded), sampling);
  sampling.logprobs = 0;
  proto::SamplingParams with_logprobs;
  Encode(sampling, with_logprobs);
  EXPECT_EQ(*Decode(with_logprobs), sampling);
}

TEST(CodecTest, BiasesWithoutTokensAreRefused) {
  proto::SamplingParams encoded;
  Encode(SamplingParams(), encoded);
  encoded.add_biases(1.0f);
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(encoded).status()));
}

TEST(CodecTest, RoundTripsRandomTrees) {
  std::mt19937 random(1);
  for (int nodes = 0; nodes < 100; ++nodes) {
    const DraftTree tree = RandomTree(random, nodes);
    const auto decoded = RoundTrip<proto::DraftTree>(tree);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(*decoded, tree);
  }
}

TEST(CodecTest, RoundTripsATreeWithAZeroProbabilityNode) {
  DraftTree tree(1);
  tree.Add(0, 2, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(*RoundTrip<proto::DraftTree>(tree), tree);
}

TEST(CodecTest, ATreeWithoutARootIsRefused) {
  const auto decoded = Decode(proto::DraftTree());
  EXPECT_TRUE(absl::IsInvalidArgument(decoded.status()));
  EXPECT_THAT(decoded.status().message(), HasSubstr("must be equal and at least 1"));
}

TEST(CodecTest, TreeArraysOfDifferentSizesAreRefused) {
  std::mt19937 random(1);
  proto::DraftTree good;
  Encode(RandomTree(random, 5), good);
  ASSERT_TRUE(Decode(good).ok());
  proto::DraftTree bad = good;
  bad.add_tokens(1);
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(bad).status()));
  bad = good;
  bad.add_parents(0);
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(bad).status()));
  bad = good;
  bad.mutable_log_scores()->RemoveLast();
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(bad).status()));
}

TEST(CodecTest, AParentAfterItsChildIsRefused) {
  for (const int parent : {2, 3, 100, -1, -100}) {
    proto::DraftTree tree;
    Encode(DraftTree(1), tree);
    for (const int node_parent : {0, parent}) {
      tree.add_tokens(2);
      tree.add_parents(node_parent);
      tree.add_log_scores(-1);
    }
    const auto decoded = Decode(tree);
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << parent;
    EXPECT_THAT(decoded.status().message(), HasSubstr("node 2"));
  }
}

TEST(CodecTest, RoundTripsTraces) {
  TimingTrace trace;
  trace.queue = absl::Nanoseconds(1);
  trace.layout = absl::Nanoseconds(2);
  trace.forward = absl::Seconds(3);
  trace.accept = absl::Nanoseconds(4);
  trace.commit = absl::Nanoseconds(5);
  trace.feature_export = absl::Nanoseconds(6);
  trace.rows = 7;
  trace.experts = 12.25;
  trace.contexts = {8, 0, 9};
  const TimingTrace decoded = RoundTrip<proto::TimingTrace>(trace);
  EXPECT_EQ(decoded.queue, trace.queue);
  EXPECT_EQ(decoded.layout, trace.layout);
  EXPECT_EQ(decoded.forward, trace.forward);
  EXPECT_EQ(decoded.accept, trace.accept);
  EXPECT_EQ(decoded.commit, trace.commit);
  EXPECT_EQ(decoded.feature_export, trace.feature_export);
  EXPECT_EQ(decoded.verify(), trace.verify());
  EXPECT_EQ(decoded.rows, 7);
  EXPECT_EQ(decoded.experts, 12.25);
  EXPECT_EQ(decoded.contexts, trace.contexts);
}

TEST(CodecTest, RoundTripsTracesOfDrafts) {
  DraftTrace trace;
  trace.queue = absl::Nanoseconds(1);
  trace.features = absl::Nanoseconds(2);
  trace.context = absl::Seconds(3);
  trace.forward = absl::Nanoseconds(4);
  trace.candidates = absl::Nanoseconds(5);
  trace.context_tokens = 6;
  trace.drafts = 7;
  trace.ahead = 8;
  const DraftTrace decoded = RoundTrip<proto::DraftTrace>(trace);
  EXPECT_EQ(decoded.queue, trace.queue);
  EXPECT_EQ(decoded.features, trace.features);
  EXPECT_EQ(decoded.context, trace.context);
  EXPECT_EQ(decoded.forward, trace.forward);
  EXPECT_EQ(decoded.candidates, trace.candidates);
  EXPECT_EQ(decoded.context_tokens, 6);
  EXPECT_EQ(decoded.drafts, 7);
  EXPECT_EQ(decoded.ahead, 8);
}

TEST(CodecTest, RoundTripsVerifyCalls) {
  std::mt19937 random(2);
  const Forest forest = {{kSequence, 5, RandomTree(random, 9)}, {{1, 0}, 0, DraftTree(4)}};
  const std::vector<PrefillItem> prompts = {{{2, 1}, 12, {3, 0, 7}}, {{3, 0}, 0, {1}}};
  proto::VerifierRequest::Verify request;
  Encode(forest, prompts, request);
  const auto decoded = Decode(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->forest.size(), 2u);
  ASSERT_EQ(decoded->prompts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(decoded->forest[i].sequence, forest[i].sequence);
    EXPECT_EQ(decoded->forest[i].cached, forest[i].cached);
    EXPECT_EQ(decoded->forest[i].tree, forest[i].tree);
    EXPECT_EQ(decoded->prompts[i].sequence, prompts[i].sequence);
    EXPECT_EQ(decoded->prompts[i].cached, prompts[i].cached);
    EXPECT_EQ(decoded->prompts[i].tokens, prompts[i].tokens);
  }
}

TEST(CodecTest, AForestWithARootlessTreeIsRefused) {
  proto::VerifierRequest::Verify request;
  Encode({{kSequence, 5, DraftTree(4)}}, {}, request);
  request.add_items();
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(request).status()));
}

TEST(CodecTest, RoundTripsVerifyResults) {
  VerifyResult result;
  result.outcomes.push_back({absl::OkStatus(), {{1, 4, 6}, 99}});
  result.outcomes[0].acceptance.logprobs = {{-0.5f, {{7, -0.25f}, {8, -3.0f}}}, {-2.0f, {}}};
  result.outcomes.push_back({absl::NotFoundError("unknown"), {}});
  result.trace.rows = 3;
  result.trace.audit = absl::Microseconds(7);
  result.audit = {10, 25, 1, 2};
  result.prompts = {absl::OkStatus(), absl::ResourceExhaustedError("full")};
  result.free_kv_tokens = 4096;
  proto::VerifierReply reply;
  Encode(result, reply);
  const VerifyResult decoded = DecodeVerifyResult(reply);
  ASSERT_EQ(decoded.outcomes.size(), 2u);
  EXPECT_TRUE(decoded.outcomes[0].status.ok());
  EXPECT_EQ(decoded.outcomes[0].acceptance, result.outcomes[0].acceptance);
  EXPECT_EQ(decoded.outcomes[1].status, result.outcomes[1].status);
  EXPECT_EQ(decoded.trace.rows, 3);
  EXPECT_EQ(decoded.trace.audit, absl::Microseconds(7));
  EXPECT_EQ(decoded.audit, result.audit);
  EXPECT_EQ(decoded.prompts, result.prompts);
  EXPECT_EQ(decoded.free_kv_tokens, 4096);
}

TEST(CodecTest, RoundTripsFrontiers) {
  Frontier frontier = {kSequence, 40, 7, {1, 2, 3}, "salt", {{}, {5}, {5, 6}}, 32, {1.0f, 8}, true};
  const Frontier decoded = RoundTrip<proto::DrafterRequest::Frontier>(frontier);
  EXPECT_EQ(decoded.sequence, kSequence);
  EXPECT_EQ(decoded.committed, 40);
  EXPECT_EQ(decoded.root, 7);
  EXPECT_EQ(decoded.new_tokens, frontier.new_tokens);
  EXPECT_EQ(decoded.cache_salt, "salt");
  EXPECT_EQ(decoded.paths, frontier.paths);
  EXPECT_EQ(decoded.candidates, 32);
  EXPECT_EQ(decoded.sampling, frontier.sampling);
  EXPECT_TRUE(decoded.coupled);
}

TEST(CodecTest, RoundTripsPrefixes) {
  const std::string salt("\xff\0", 2);  // Any bytes.
  const PrefixItem decoded =
      RoundTrip<proto::VerifierRequest::ReusePrefix>(PrefixItem{kSequence, {5, 6, 7}, salt});
  EXPECT_EQ(decoded.sequence, kSequence);
  EXPECT_EQ(decoded.tokens, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(decoded.salt, salt);
}

TEST(CodecTest, RoundTripsInfos) {
  TargetInfo target = {"qwen",           "a GPU", true, {1, 2, 3, 4, 5, 6, 7, 8, 9},
                       {1.5e10, 2.5e12}, 4096,    512};
  target.dims.mlp = {10, 11, 12, 13, 14};
  const TargetInfo decoded = RoundTrip<proto::TargetInfo>(target);
  EXPECT_EQ(decoded.model, "qwen");
  EXPECT_EQ(decoded.device, "a GPU");
  EXPECT_TRUE(decoded.on_gpu);
  EXPECT_EQ(decoded.dims.layers, 1);
  EXPECT_EQ(decoded.dims.hidden, 2);
  EXPECT_EQ(decoded.dims.query_heads, 3);
  EXPECT_EQ(decoded.dims.kv_heads, 4);
  EXPECT_EQ(decoded.dims.head_dim, 5);
  EXPECT_EQ(decoded.dims.intermediate, 6);
  EXPECT_EQ(decoded.dims.vocabulary, 7);
  EXPECT_EQ(decoded.dims.bytes_per_weight, 8);
  EXPECT_EQ(decoded.dims, target.dims) << "state_bytes_per_element and mlp too";
  EXPECT_EQ(decoded.peaks.bytes_per_second, 1.5e10);
  EXPECT_EQ(decoded.peaks.flops_per_second, 2.5e12);
  EXPECT_EQ(decoded.max_context, 4096);
  EXPECT_EQ(decoded.max_rows, 512);
  const DrafterInfo drafter =
      RoundTrip<proto::DrafterInfo>(DrafterInfo{.model = "dflash",
                                                .positions = 15,
                                                .vocabulary = 7,
                                                .max_context = 2048,
                                                .wants_tokens = true,
                                                .features = FeatureRoute::kPeerGpuMemory});
  EXPECT_EQ(drafter.model, "dflash");
  EXPECT_EQ(drafter.positions, 15);
  EXPECT_EQ(drafter.vocabulary, 7);
  EXPECT_EQ(drafter.max_context, 2048);
  EXPECT_TRUE(drafter.wants_tokens);
  EXPECT_EQ(drafter.features, FeatureRoute::kPeerGpuMemory);
}

}  // namespace
}  // namespace bastion::wire
