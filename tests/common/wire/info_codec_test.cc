#include "common/wire/codec.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

TEST(InfoCodecTest, AWeightMayHaveAFractionOfAByte) {
  TargetInfo info;
  info.dims.bytes_per_weight = 0.5;
  proto::TargetInfo encoded;
  Encode(info, encoded);
  EXPECT_EQ(Decode(encoded).dims.bytes_per_weight, 0.5);
  EXPECT_EQ(encoded.bytes_per_element(), 1) << "for older versions";
}

TEST(InfoCodecTest, OlderVersionsStateWholeBytes) {
  proto::TargetInfo older;
  older.set_bytes_per_element(2);
  EXPECT_EQ(Decode(older).dims.bytes_per_weight, 2);
}

TEST(InfoCodecTest, ARouteOfANewerVersionIsNone) {
  proto::DrafterInfo newer;
  newer.set_features(99);
  EXPECT_EQ(Decode(newer).features, FeatureRoute::kNone);
}

}  // namespace
}  // namespace bastion::wire
