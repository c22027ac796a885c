#include <random>
#include <string>

#include "common/wire/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random_marginals.h"

namespace bastion::wire {
namespace {

using ::bastion::testing::EdgeCase;
using ::bastion::testing::RandomMarginals;

class TensorCodecTest : public ::testing::Test {
 protected:
  proto::DrafterReply::Draft Encoded(const Draft& draft) {
    proto::DrafterReply::Draft encoded;
    Encode(draft, carrier_, encoded);
    return encoded;
  }
  absl::Status DecodeStatus(const proto::DrafterReply::Draft& draft) {
    return Decode(draft, carrier_).status();
  }
  absl::Status DecodeStatus(const proto::TensorRef& features) {
    return Decode(features, carrier_).status();
  }
  static Marginals Sample() {
    std::mt19937 random(3);
    return RandomMarginals(random, 3, 4, EdgeCase::kNone);
  }

  InlineCarrier carrier_;
};

TEST_F(TensorCodecTest, RoundTripsDrafts) {
  std::mt19937 random(4);
  for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
    Draft draft;
    draft.marginals = {RandomMarginals(random, 15, 64, edge_case), Marginals(),
                       RandomMarginals(random, 1, 1, edge_case)};
    const auto decoded = Decode(Encoded(draft), carrier_);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->marginals, draft.marginals);
  }
}

TEST_F(TensorCodecTest, RoundTripsBuckets) {
  Draft draft;
  draft.marginals = {Sample(), Sample(), Marginals()};
  draft.marginals[0].buckets = {0, 3, 1};
  const proto::DrafterReply::Draft encoded = Encoded(draft);
  EXPECT_FALSE(encoded.marginals(0).buckets().empty());
  EXPECT_TRUE(encoded.marginals(1).buckets().empty());
  const auto decoded = Decode(encoded, carrier_);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->marginals, draft.marginals);
}

TEST_F(TensorCodecTest, AWrongNumberOfBucketsIsRefused) {
  for (const size_t count : {1, 2, 4}) {
    proto::DrafterReply::Draft draft = Encoded({{Sample()}});
    draft.mutable_marginals(0)->set_buckets(std::string(count, '\0'));
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(draft))) << count;
  }
}

TEST_F(TensorCodecTest, RoundTripsPairScores) {
  Draft draft;
  draft.marginals = {Sample(), Sample(), Marginals()};
  Marginals& with_scores = draft.marginals[1];
  const size_t entries = with_scores.tokens.size() * with_scores.candidates;
  for (size_t i = 0; i < entries; ++i) {
    with_scores.pair_scores.push_back(static_cast<float>(i) / 7 - 1);
  }
  const proto::DrafterReply::Draft encoded = Encoded(draft);
  EXPECT_FALSE(encoded.marginals(0).has_pair_scores());
  const auto decoded = Decode(encoded, carrier_);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->marginals, draft.marginals);
}

TEST_F(TensorCodecTest, PairScoresOfAnotherShapeOrTypeAreRefused) {
  Draft draft{{Sample()}};
  Marginals& marginals = draft.marginals[0];
  marginals.pair_scores.resize(marginals.tokens.size() * marginals.candidates);
  const proto::DrafterReply::Draft encoded = Encoded(draft);
  for (int dimension = 0; dimension < 3; ++dimension) {
    proto::DrafterReply::Draft wrong = encoded;
    TensorRef& scores = *wrong.mutable_marginals(0)->mutable_pair_scores();
    scores.set_shape(dimension, scores.shape(dimension) + 1);
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(wrong))) << dimension;
  }
  proto::DrafterReply::Draft wrong = encoded;
  wrong.mutable_marginals(0)->mutable_pair_scores()->set_dtype(TensorRef::DTYPE_INT32);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(wrong)));
}

TEST_F(TensorCodecTest, MarginalsWithoutLogProbsAreRefused) {
  proto::DrafterReply::Draft draft = Encoded({{Sample()}});
  draft.mutable_marginals(0)->clear_log_probs();
  EXPECT_FALSE(DecodeStatus(draft).ok());
}

TEST_F(TensorCodecTest, MarginalsOfTheWrongTypeAreRefused) {
  proto::DrafterReply::Draft draft = Encoded({{Sample()}});
  draft.mutable_marginals(0)->mutable_tokens()->set_dtype(TensorRef::DTYPE_FLOAT32);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(draft)));
  draft = Encoded({{Sample()}});
  draft.mutable_marginals(0)->mutable_log_probs()->set_dtype(TensorRef::DTYPE_BFLOAT16);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(draft)));
}

TEST_F(TensorCodecTest, MarginalsWhoseShapesDisagreeAreRefused) {
  // The same number of entries, but log-probabilities of shape [4, 3] and tokens of shape [3, 4].
  proto::DrafterReply::Draft draft = Encoded({{Sample()}});
  TensorRef& log_probs = *draft.mutable_marginals(0)->mutable_log_probs();
  log_probs.set_shape(0, 4);
  log_probs.set_shape(1, 3);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(draft)));
  draft = Encoded({{Sample()}});
  draft.mutable_marginals(0)->mutable_tokens()->add_shape(1);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(draft)));
}

TEST_F(TensorCodecTest, MarginalsWhoseBytesDisagreeWithTheirShapeAreRefused) {
  proto::DrafterReply::Draft draft = Encoded({{Sample()}});
  draft.mutable_marginals(0)->mutable_tokens()->mutable_inline_()->pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(draft)));
}

TEST_F(TensorCodecTest, PositionsWithoutCandidatesAreRefused) {
  // The tensors have no bytes, but a caller would loop over half a billion positions.
  proto::DrafterReply::Draft draft;
  for (TensorRef* tensor :
       {draft.add_marginals()->mutable_tokens(), draft.mutable_marginals(0)->mutable_log_probs()}) {
    tensor->add_shape(1 << 29);
    tensor->add_shape(0);
    tensor->set_inline_("");
  }
  draft.mutable_marginals(0)->mutable_tokens()->set_dtype(TensorRef::DTYPE_INT32);
  draft.mutable_marginals(0)->mutable_log_probs()->set_dtype(TensorRef::DTYPE_FLOAT32);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(draft)));
}

TEST_F(TensorCodecTest, RoundTripsFeaturesOfBothTypes) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    Features features = {3, type, ""};
    features.bytes = std::string(5 * features.row_bytes(), '\x7f');
    TensorRef encoded;
    carrier_.Put(FeatureShape(type, 5, 3), features.bytes, encoded);
    const auto decoded = Decode(encoded, carrier_);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->width, 3);
    EXPECT_EQ(decoded->type, type);
    EXPECT_EQ(decoded->rows(), 5);
    EXPECT_EQ(decoded->bytes, features.bytes);
  }
}

TEST_F(TensorCodecTest, FeaturesWithoutWholeRowsAreRefused) {
  TensorRef good;
  carrier_.Put(FeatureShape(DType::kF32, 3, 2), std::string(24, 'x'), good);
  ASSERT_TRUE(DecodeStatus(good).ok());
  TensorRef bad = good;
  bad.set_dtype(TensorRef::DTYPE_INT32);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(bad)));
  bad = good;
  bad.add_shape(1);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(bad)));
  for (const int64_t width : {0, -2, 3}) {
    bad = good;
    bad.set_shape(1, width);
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(bad))) << width;
  }
  bad = good;
  bad.mutable_inline_()->pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStatus(bad)));
  bad.clear_inline_();
  EXPECT_TRUE(absl::IsUnimplemented(DecodeStatus(bad)));
}

}  // namespace
}  // namespace bastion::wire
