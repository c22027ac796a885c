// Limits the bytes of one cycle's messages that are copied between processes. Inline messages are
// copied with their tensors. Over shared memory only the message body is copied.
#include <iostream>
#include <random>

#include "common/wire/codec.h"
#include "gtest/gtest.h"
#include "orchestrator/profile/random_tree.h"
#include "tests/support/random_marginals.h"
#include "tests/support/shared_pair.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

constexpr SequenceId kLongestId = {uint64_t{1} << 63, 0};
constexpr int kLargeVocabulary = 151936, kPositions = 15, kCandidates = 64;
constexpr int kTreeRows = 3, kFeatureWidth = 5 * 1024;
constexpr int64_t kTensorBytes = 2 * kTreeRows * kFeatureWidth + 8 * kPositions * kCandidates;

// The bytes of a verify of 16 nodes (two are accepted), its features, and the next draft.
int64_t BodyBytes(wire::Carrier& carrier) {
  proto::VerifierRequest verify;
  verify.set_step(1000);
  wire::Encode({{kLongestId, 1000, RandomTree(17, kLargeVocabulary, 1)}}, {},
               *verify.mutable_verify());
  proto::VerifierReply verified;
  verified.set_step(1000);
  VerifyOutcome outcome;
  outcome.acceptance = {{3, 7}, 1234};
  VerifyResult result;
  result.outcomes = {outcome};
  result.free_kv_tokens = 50000;
  result.trace.forward = absl::Milliseconds(20);
  result.trace.contexts = {1000};
  wire::Encode(result, verified);
  proto::FeatureReply features;
  wire::Encode(kLongestId, *features.mutable_sequence());
  features.set_first(1000);
  features.set_next(1234);
  (void)carrier.Reserve(wire::FeatureShape(DType::kBF16, kTreeRows, kFeatureWidth),
                        *features.mutable_features());
  proto::DrafterRequest expand;
  expand.set_step(1001);
  Frontier frontier;
  frontier.sequence = kLongestId;
  frontier.committed = 1003;
  frontier.new_tokens = {100000, 100001, 100002};
  wire::Encode(frontier, *expand.mutable_expand()->add_frontiers());
  proto::DrafterReply drafted;
  drafted.set_step(1001);
  std::mt19937 random(1);
  wire::Encode(Draft{{testing::RandomMarginals(random, kPositions, kCandidates)}}, carrier,
               *drafted.add_drafts());
  return static_cast<int64_t>(verify.ByteSizeLong() + verified.ByteSizeLong() +
                              features.ByteSizeLong() + expand.ByteSizeLong() +
                              drafted.ByteSizeLong());
}

TEST(WireBytesTest, AnInlineCycleCopiesItsTensors) {
  wire::InlineCarrier carrier;
  const int64_t bytes = BodyBytes(carrier);
  std::cout << "inline: " << bytes << " bytes per cycle, tensors " << kTensorBytes << "\n";
  EXPECT_LE(bytes, kTensorBytes + 350);
}

TEST(WireBytesTest, ACycleOverSharedMemoryCopiesNoTensors) {
  testing::SharedPair pair = testing::MakeSharedPair(1 << 20);
  wire::SharedChannel channel(std::move(pair.first));
  const int64_t bytes = BodyBytes(channel);
  std::cout << "shared memory: " << bytes << " bytes per cycle\n";
  EXPECT_LE(bytes, 350);
}

}  // namespace
}  // namespace bastion
