#include "engine/model/prefix_cache.h"

#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::nn {
namespace {

using kernels::kPageTokens;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Page `index` of a text has the token `texts[index]` throughout.
std::vector<TokenId> Tokens(const std::vector<TokenId>& text, int extra = 0) {
  std::vector<TokenId> tokens;
  for (const TokenId token : text) tokens.insert(tokens.end(), kPageTokens, token);
  tokens.insert(tokens.end(), extra, 99);
  return tokens;
}

// One sequence, as an engine keeps it.
struct Live {
  PageTable table;
  PrefixCache::Chain chain;
  int reused = 0;  // Tokens.
};

class PrefixCacheTest : public ::testing::Test {
 protected:
  // Reuses what it can of `tokens`, computes the rest and caches it.
  Live Run(const std::vector<TokenId>& tokens, const std::string& salt = "") {
    Live live = {{}, cache_->Begin(salt)};
    live.reused = cache_->Reuse(tokens, live.table, live.chain);
    EXPECT_TRUE(pool_.Reserve(live.table, static_cast<int>(tokens.size())).ok());
    (void)cache_->Add(tokens, live.table, live.chain);
    return live;
  }
  void Close(Live& live) { pool_.Shrink(live.table, 0); }
  // Runs and closes. Returns the number of reused pages.
  int ReusedPages(const std::vector<TokenId>& tokens, const std::string& salt = "") {
    Live live = Run(tokens, salt);
    Close(live);
    return live.reused / kPageTokens;
  }
  void MakeCache(PrefixCache::Hash hash) {
    cache_.reset();
    cache_ = std::make_unique<PrefixCache>(
        &pool_, [this](int32_t page) { dropped_.push_back(page); }, std::move(hash));
  }

  PagePool pool_{8};
  std::vector<int32_t> dropped_;
  std::unique_ptr<PrefixCache> cache_ =
      std::make_unique<PrefixCache>(&pool_, [this](int32_t page) { dropped_.push_back(page); });
};

TEST_F(PrefixCacheTest, FullPagesOfAnEqualBeginningAreReused) {
  Live first = Run(Tokens({1, 2, 3}, 5));
  EXPECT_EQ(first.reused, 0);
  EXPECT_EQ(cache_->cached_pages(), 3) << "the last page is not full";
  Live second = Run(Tokens({1, 2, 4}));
  EXPECT_EQ(second.reused, 2 * kPageTokens);
  EXPECT_EQ(second.table.pages[0], first.table.pages[0]);
  EXPECT_EQ(second.table.pages[1], first.table.pages[1]);
  EXPECT_NE(second.table.pages[2], first.table.pages[2]) << "a page that differs is not shared";
  EXPECT_EQ(pool_.free_pages(), 8 - 4 - 1);
}

TEST_F(PrefixCacheTest, APageIsReusedOnlyAfterTheSamePages) {
  EXPECT_EQ(ReusedPages(Tokens({1, 2})), 0);
  EXPECT_EQ(ReusedPages(Tokens({3, 2})), 0);
  EXPECT_EQ(ReusedPages(Tokens({2})), 0);
  EXPECT_EQ(ReusedPages(Tokens({1, 2})), 2);
}

TEST_F(PrefixCacheTest, AnotherSaltSharesNothing) {
  EXPECT_EQ(ReusedPages(Tokens({1, 2}), "alice"), 0);
  EXPECT_EQ(ReusedPages(Tokens({1, 2}), "bob"), 0);
  EXPECT_EQ(ReusedPages(Tokens({1, 2}), ""), 0);
  EXPECT_EQ(ReusedPages(Tokens({1, 2}), "alice"), 2);
}

TEST_F(PrefixCacheTest, EqualHashesOfOtherTokensDoNotMatch) {
  MakeCache([](absl::string_view) { return Bits128{4, 2}; });
  EXPECT_EQ(ReusedPages(Tokens({1})), 0);
  EXPECT_EQ(ReusedPages(Tokens({2})), 0);
  EXPECT_EQ(ReusedPages(Tokens({1}), "another salt"), 0);
  EXPECT_EQ(ReusedPages(Tokens({1})), 1);
}

TEST_F(PrefixCacheTest, NothingIsCachedAfterACollision) {
  // The hash of a page is that of its last token.
  MakeCache([](absl::string_view data) {
    return data.empty() ? Bits128{} : Bits128{static_cast<uint8_t>(data[data.size() - 4]), 1};
  });
  std::vector<TokenId> colliding = Tokens({1, 2});
  colliding[0] = 7;  // The first page collides with that of {1}.
  EXPECT_EQ(ReusedPages(Tokens({1})), 0);
  EXPECT_EQ(ReusedPages(colliding), 0);
  EXPECT_EQ(ReusedPages(Tokens({1, 2})), 1) << "page 2 followed other tokens";
}

TEST_F(PrefixCacheTest, PagesAreAddedOnceAsTheSequenceGrows) {
  const std::vector<TokenId> tokens = Tokens({1, 2, 3});
  Live live = {{}, cache_->Begin("")};
  ASSERT_TRUE(pool_.Reserve(live.table, 3 * kPageTokens).ok());
  const auto add = [&](int count) {
    return cache_->Add(absl::MakeConstSpan(tokens).subspan(0, count), live.table, live.chain);
  };
  EXPECT_THAT(add(kPageTokens - 1), IsEmpty());
  EXPECT_THAT(add(kPageTokens), ElementsAre(0));
  EXPECT_THAT(add(3 * kPageTokens - 1), ElementsAre(1));
  EXPECT_THAT(add(3 * kPageTokens), ElementsAre(2));
  EXPECT_THAT(add(3 * kPageTokens), IsEmpty());
}

TEST_F(PrefixCacheTest, OfTwoEqualPagesOneIsCached) {
  // Both are opened before either has pages.
  Live first = {{}, cache_->Begin("")}, second = {{}, cache_->Begin("")};
  for (Live* live : {&first, &second}) {
    ASSERT_TRUE(pool_.Reserve(live->table, kPageTokens).ok());
  }
  EXPECT_THAT(cache_->Add(Tokens({1}), first.table, first.chain), SizeIs(1));
  EXPECT_THAT(cache_->Add(Tokens({1}), second.table, second.chain), IsEmpty());
  Close(second);
  EXPECT_EQ(Run(Tokens({1})).table.pages, first.table.pages);
}

TEST_F(PrefixCacheTest, CachedPagesCountAsFree) {
  EXPECT_EQ(ReusedPages(Tokens({1, 2, 3})), 0);
  EXPECT_EQ(pool_.free_pages(), 8);
  Live all = Run(Tokens({11, 12, 13, 14, 15, 16, 17, 18}));
  EXPECT_EQ(pool_.free_pages(), 0);
  EXPECT_THAT(dropped_, SizeIs(3));
  Close(all);
  EXPECT_EQ(ReusedPages(Tokens({1, 2, 3})), 0);
}

TEST_F(PrefixCacheTest, ThePrefixThatWasUnusedLongestGivesWayFirst) {
  EXPECT_EQ(ReusedPages(Tokens({1, 2, 3})), 0);
  EXPECT_EQ(ReusedPages(Tokens({4, 5, 6})), 0);
  EXPECT_EQ(ReusedPages(Tokens({1, 2, 3})), 3);
  Live other = Run(Tokens({7, 8, 9}));  // Two blank pages, and one of the second prefix.
  EXPECT_THAT(dropped_, SizeIs(1));
  EXPECT_EQ(ReusedPages(Tokens({4, 5})), 2)
      << "the end of a prefix is dropped before its beginning";
  EXPECT_EQ(ReusedPages(Tokens({1, 2, 3})), 3);
  Close(other);
}

TEST_F(PrefixCacheTest, PagesOfLiveSequencesAreNeverDropped) {
  Live first = Run(Tokens({1, 2}));
  Live second = Run(Tokens({1, 2}));
  Close(first);
  PageTable greedy;
  EXPECT_TRUE(absl::IsResourceExhausted(pool_.Reserve(greedy, 7 * kPageTokens)));
  ASSERT_TRUE(pool_.Reserve(greedy, 6 * kPageTokens).ok());
  EXPECT_FALSE(pool_.DropOldest());
  EXPECT_THAT(dropped_, IsEmpty());
  for (const int32_t page : second.table.pages) {
    EXPECT_EQ(std::count(greedy.pages.begin(), greedy.pages.end(), page), 0);
  }
}

TEST_F(PrefixCacheTest, ClearDropsThePagesOfLiveSequencesToo) {
  Live live = Run(Tokens({1, 2}));
  EXPECT_EQ(ReusedPages(Tokens({1, 2, 3})), 2);
  cache_->Clear();
  EXPECT_THAT(dropped_, SizeIs(3));
  EXPECT_EQ(cache_->cached_pages(), 0);
  EXPECT_EQ(ReusedPages(Tokens({1, 2})), 0);
  Close(live);
  EXPECT_EQ(pool_.free_pages(), 8);
}

// Sequences of few different texts begin, grow and end in a small pool. A page that a sequence
// holds must contain the tokens of this sequence.
TEST_F(PrefixCacheTest, NoPageIsOverwrittenWhileASequenceHoldsIt) {
  std::mt19937 random(3);
  struct Text {
    Live live;
    std::vector<TokenId> tokens;
  };
  std::vector<Text> texts;
  std::map<int32_t, TokenId> contents;  // By page.
  int reused = 0;
  for (int step = 0; step < 5000; ++step) {
    if (texts.size() == 3 || (!texts.empty() && random() % 3 == 0)) {
      const size_t index = random() % texts.size();
      Close(texts[index].live);
      texts.erase(texts.begin() + index);
      continue;
    }
    std::vector<TokenId> pages;
    for (int i = 0; i < 3; ++i) pages.push_back(static_cast<TokenId>(random() % 2));
    Text text = {{{}, cache_->Begin("")}, Tokens(pages)};
    text.live.reused = cache_->Reuse(text.tokens, text.live.table, text.live.chain);
    if (!pool_.Reserve(text.live.table, 3 * kPageTokens).ok()) {
      Close(text.live);
      continue;
    }
    reused += text.live.reused;
    for (int i = text.live.reused / kPageTokens; i < 3; ++i) {
      contents[text.live.table.pages[i]] = pages[i];
    }
    (void)cache_->Add(text.tokens, text.live.table, text.live.chain);
    texts.push_back(std::move(text));
    for (const Text& each : texts) {
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(contents[each.live.table.pages[i]], each.tokens[i * kPageTokens]);
      }
    }
  }
  EXPECT_GT(reused, 5000);
}

}  // namespace
}  // namespace bastion::nn
