// The open sequences of the verifier: their committed tokens, their pages of the KV cache and their
// sampling. Thread-compatible; owned by the engine.
#ifndef BASTION_VERIFIER_SERVICE_ENGINE_SEQUENCE_TABLE_H_
#define BASTION_VERIFIER_SERVICE_ENGINE_SEQUENCE_TABLE_H_

#include <cstdint>
#include <optional>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/stages/stage_data.h"
#include "engine/model/page_pool.h"
#include "engine/model/prefix_cache.h"
#include "verifier_service/verify/token_history.h"

namespace bastion::verifier {

struct Sequence {
  SequenceId id;
  SamplingParams sampling;
  Position committed = 0;
  nn::PageTable table;
  TokenHistory history;  // The committed tokens.
  // Set if the sequence shares its pages.
  std::optional<nn::PrefixCache::Chain> prefix = {};

  void Commit(TokenId token) {
    ++committed;
    history.Push(token);
  }
};

class SequenceTable {
 public:
  SequenceTable(nn::PagePool& pages, int max_sequences)
      : pages_(pages), max_sequences_(max_sequences) {}

  // Closes an open earlier epoch of the session first. ALREADY_EXISTS if this epoch is open;
  // FAILED_PRECONDITION if a later epoch is open; RESOURCE_EXHAUSTED if the table is full.
  [[nodiscard]] absl::Status Open(SequenceId id, const SamplingParams& sampling);

  // NOT_FOUND, or FAILED_PRECONDITION for a stale epoch. The pointer stays valid until Close.
  [[nodiscard]] absl::StatusOr<Sequence*> Find(SequenceId id);

  // Frees the sequence's pages. Returns false if it was not open.
  bool Close(SequenceId id);

  [[nodiscard]] int size() const { return static_cast<int>(sequences_.size()); }

 private:
  nn::PagePool& pages_;
  int max_sequences_;
  absl::node_hash_map<uint64_t, Sequence> sequences_;  // By session. Each has one open epoch.
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_SEQUENCE_TABLE_H_
