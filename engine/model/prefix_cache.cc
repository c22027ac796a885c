#include "engine/model/prefix_cache.h"

#include "absl/strings/str_cat.h"

namespace bastion::nn {
namespace {

using kernels::kPageTokens;

template <typename T>
absl::string_view BytesOf(const T* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

}  // namespace

PrefixCache::Hash PrefixCache::KeyedHash() {
  return [key = RandomKey()](absl::string_view data) { return SipHash128(key, data); };
}

PrefixCache::PrefixCache(PagePool* pool, std::function<void(int32_t)> on_drop, Hash hash)
    : pool_(pool), on_drop_(std::move(on_drop)), hash_(std::move(hash)) {
  pool_->OnDrop([this](int32_t page) { Forget(page); });
}

PrefixCache::~PrefixCache() {
  Clear();
  pool_->OnDrop(nullptr);
}

PrefixCache::Chain PrefixCache::Begin(std::string salt) const {
  Chain chain;
  chain.last_ = hash_(salt);
  chain.salt_ = std::move(salt);
  chain.ended_ = false;
  return chain;
}

std::pair<Bits128, PrefixCache::Entry> PrefixCache::Next(absl::Span<const TokenId> tokens,
                                                         const Chain& chain) const {
  const auto page = tokens.subspan(size_t(chain.pages_) * kPageTokens, kPageTokens);
  const Bits128 hash =
      hash_(absl::StrCat(BytesOf(&chain.last_, 1), BytesOf(page.data(), page.size())));
  return {hash, {chain.last_, chain.salt_, {page.begin(), page.end()}}};
}

int PrefixCache::Reuse(absl::Span<const TokenId> tokens, PageTable& table, Chain& chain) {
  const int full_pages = static_cast<int>(tokens.size()) / kPageTokens;
  while (chain.pages_ < full_pages) {
    const auto [hash, entry] = Next(tokens, chain);
    const auto found = entries_.find(hash);
    if (found == entries_.end() || !found->second.Equals(entry)) break;
    pool_->Share(table, found->second.page);
    chain.last_ = hash;
    ++chain.pages_;
  }
  return chain.pages_ * kPageTokens;
}

std::vector<int> PrefixCache::Add(absl::Span<const TokenId> tokens, const PageTable& table,
                                  Chain& chain) {
  std::vector<int> added;
  const int full_pages = static_cast<int>(tokens.size()) / kPageTokens;
  while (!chain.ended_ && chain.pages_ < full_pages) {
    auto [hash, entry] = Next(tokens, chain);
    entry.page = table.pages[chain.pages_];
    const auto [found, is_new] = entries_.try_emplace(hash, entry);
    if (is_new) {
      pool_->Keep(entry.page);
      hashes_[entry.page] = hash;
      added.push_back(chain.pages_);
    } else if (!found->second.Equals(entry)) {
      // A collision. Later pages would seem to follow the tokens of the other sequence.
      chain.ended_ = true;
    }
    chain.last_ = hash;
    ++chain.pages_;
  }
  return added;
}

void PrefixCache::Forget(int32_t page) {
  const auto found = hashes_.find(page);
  entries_.erase(found->second);
  hashes_.erase(found);
  if (on_drop_) on_drop_(page);
}

void PrefixCache::Clear() {
  while (!hashes_.empty()) pool_->Drop(hashes_.begin()->first);
}

}  // namespace bastion::nn
