// PrefixCache: finds the pages of a PagePool that already hold the beginning of a new sequence.
//
// A full page is identified by a keyed 128-bit hash. The hash covers the page's tokens, all tokens
// before them, and the sequence's salt. The key is random in every process, so a client cannot
// construct a collision. If a hash is found, the tokens and the salt are compared too. Sequences
// share pages only under the same salt: a hit takes less time, which reveals that another sequence
// had these tokens.
//
// Shared pages are never written: only full pages of committed tokens are cached, and a sequence
// writes only after its committed tokens. The first token that differs begins a page of its own.
//
// The pool decides which cached pages to drop (page_pool.h). Thread-compatible.
#ifndef BASTION_ENGINE_MODEL_PREFIX_CACHE_H_
#define BASTION_ENGINE_MODEL_PREFIX_CACHE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/siphash.h"
#include "engine/model/page_pool.h"

namespace bastion::nn {

class PrefixCache {
 public:
  using Hash = std::function<Bits128(absl::string_view)>;
  // SipHash128 with a random key.
  [[nodiscard]] static Hash KeyedHash();

  // `pool` must outlive this object, which uses PagePool::OnDrop. `on_drop` is called with each
  // page whose content is no longer cached.
  explicit PrefixCache(PagePool* pool, std::function<void(int32_t page)> on_drop = nullptr,
                       Hash hash = KeyedHash());
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // How far the pages of one sequence have been hashed.
  class Chain {
   public:
    Chain() = default;

   private:
    friend class PrefixCache;
    std::string salt_;
    Bits128 last_;  // Hash of the last page.
    int pages_ = 0;
    bool ended_ = true;  // No further pages are cached.
  };

  // The chain of a sequence without pages.
  [[nodiscard]] Chain Begin(std::string salt) const;
  // Appends the cached pages that hold the beginning of `tokens` to `table`. Returns how many
  // tokens they hold. REQUIRES: `table` is empty, and `chain` is new.
  int Reuse(absl::Span<const TokenId> tokens, PageTable& table, Chain& chain);
  // Caches the pages of `table` that `tokens`, the committed tokens of the sequence, have filled
  // since the last call. Returns their indices in `table`. Leaves out pages that are already cached
  // from another sequence.
  std::vector<int> Add(absl::Span<const TokenId> tokens, const PageTable& table, Chain& chain);

  // Drops the content of all pages.
  void Clear();
  [[nodiscard]] int cached_pages() const { return static_cast<int>(entries_.size()); }

 private:
  struct Entry {
    Bits128 parent;  // Hash of the page before.
    std::string salt;
    std::vector<TokenId> tokens;
    int32_t page = 0;

    [[nodiscard]] bool Equals(const Entry& other) const {
      return parent == other.parent && salt == other.salt && tokens == other.tokens;
    }
  };
  // The entry of the next page of `chain`, and its hash.
  [[nodiscard]] std::pair<Bits128, Entry> Next(absl::Span<const TokenId> tokens,
                                               const Chain& chain) const;
  void Forget(int32_t page);

  PagePool* const pool_;
  const std::function<void(int32_t)> on_drop_;
  const Hash hash_;
  absl::flat_hash_map<Bits128, Entry> entries_;
  absl::flat_hash_map<int32_t, Bits128> hashes_;  // By page.
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_PREFIX_CACHE_H_
