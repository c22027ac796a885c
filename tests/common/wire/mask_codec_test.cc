#include "common/wire/mask_codec.h"

#include "common/wire/codec.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

// A tree of three rows: a mask of few tokens, one of most tokens, and none.
VerifyItem MaskedItem(int vocabulary) {
  VerifyItem item = {SequenceId{7, 2}, 5, DraftTree(4)};
  item.tree.Add(0, 1, -1);
  item.tree.Add(1, 2, -2);
  TokenSet few(vocabulary), most(vocabulary);
  few.Add(0);
  few.Add(vocabulary - 1);
  for (TokenId token = 1; token < vocabulary; ++token) most.Add(token);
  item.masks = {{few, most}, {1, 0, RowMasks::kAllTokens}};
  return item;
}

TEST(MaskCodecTest, RoundTripsMasks) {
  for (const int vocabulary : {1024, 1003, 31}) {
    const VerifyItem item = MaskedItem(vocabulary);
    proto::VerifierRequest::Verify request;
    Encode({item}, {}, request);
    EXPECT_EQ(request.items(0).masks(1).bits().empty(), false);
    const auto decoded = Decode(request);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->forest.at(0).masks, item.masks);
    EXPECT_TRUE(decoded->forest[0].masks.Validate(3, vocabulary).ok());
  }
}

TEST(MaskCodecTest, MasksOfFewTokensAreShort) {
  proto::VerifierRequest::Verify request;
  Encode({MaskedItem(150000)}, {}, request);
  EXPECT_LT(request.items(0).masks(0).ByteSizeLong(), 16u);
  EXPECT_LT(request.ByteSizeLong(), 20000u);
}

TEST(MaskCodecTest, DamagedMasksAreRefused) {
  proto::VerifierRequest::Verify good;
  Encode({MaskedItem(1003)}, {}, good);
  const auto refused = [&](auto damage) {
    proto::VerifierRequest::Verify bad = good;
    damage(*bad.mutable_items(0));
    return absl::IsInvalidArgument(Decode(bad).status());
  };
  using Item = proto::VerifierRequest::Item;
  EXPECT_TRUE(refused([](Item& item) { item.mutable_masks(0)->add_tokens(1003); }));
  EXPECT_TRUE(refused([](Item& item) { item.mutable_masks(0)->add_tokens(-1); }));
  EXPECT_TRUE(refused([](Item& item) { item.mutable_masks(1)->mutable_bits()->pop_back(); }));
  EXPECT_TRUE(refused([](Item& item) { item.mutable_masks(1)->mutable_bits()->back() = '\xFF'; }));
  EXPECT_TRUE(refused([](Item& item) { item.set_mask_vocabulary(-1); }));
  EXPECT_TRUE(refused([](Item& item) {
    item.set_mask_vocabulary(1 << 30);
    for (int i = 0; i < 10; ++i) item.add_masks();
  }));
}

// With a limit for each item, 10 kB of message could ask for 20 GB.
TEST(MaskCodecTest, TheLimitHoldsForAllItemsOfAMessage) {
  proto::VerifierRequest::Verify request;
  Encode({MaskedItem(1003)}, {}, request);
  proto::VerifierRequest::Item& item = *request.mutable_items(0);
  item.clear_mask_of_row();
  item.clear_masks();
  item.add_masks()->add_tokens(1);
  item.set_mask_vocabulary(static_cast<int>(kMaxMaskBytes / 4) * 8);  // A quarter of the room.
  const proto::VerifierRequest::Item large = item;
  for (int items = 2; items <= 4; ++items) *request.add_items() = large;
  EXPECT_TRUE(Decode(request).ok());
  *request.add_items() = large;
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(request).status()));
}

}  // namespace
}  // namespace bastion::wire
