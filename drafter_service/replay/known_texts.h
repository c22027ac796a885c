// KnownTexts: texts that the target wrote before, each with its prompt. Replayed acceptance finds
// in them which token the target chooses next.
//
// Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_REPLAY_KNOWN_TEXTS_H_
#define BASTION_DRAFTER_SERVICE_REPLAY_KNOWN_TEXTS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace bastion::drafter {

class KnownTexts {
 public:
  // Reads JSON lines with the "token_ids" of a prompt and its answer, as in the texts of
  // `bastion-bench --texts` and `bastion-train teach`. Errors name the file and the line.
  [[nodiscard]] static absl::StatusOr<KnownTexts> Read(const std::string& path);

  void Add(std::vector<TokenId> text) { texts_.insert(std::move(text)); }
  void Clear() { texts_.clear(); }

  // A text that begins with `prefix` and is longer. Null: none is known. Valid until the next
  // Clear.
  [[nodiscard]] const std::vector<TokenId>* Find(const std::vector<TokenId>& prefix) const;

 private:
  std::set<std::vector<TokenId>> texts_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_REPLAY_KNOWN_TEXTS_H_
