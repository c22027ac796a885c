#include "orchestrator/profile/batch_profile.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/stages/kv_pages.h"
#include "orchestrator/profile/random_tree.h"

namespace bastion {
namespace {

// Sequences of random tokens, and one forest over them.
class Batch {
 public:
  Batch(Verifier* verifier, int vocabulary) : verifier_(verifier), vocabulary_(vocabulary) {}
  ~Batch() {
    for (const VerifyItem& item : forest_) verifier_->Close(item.sequence);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  [[nodiscard]] int sequences() const { return static_cast<int>(forest_.size()); }

  // Opens a sequence of `context` tokens, to verify a random tree of `rows` rows.
  absl::Status Add(SequenceId id, int context, int rows) {
    RETURN_IF_ERROR(verifier_->Open(id, SamplingParams()));
    forest_.push_back({id, context, RandomTree(rows, vocabulary_, id.session)});
    const DraftTree prompt = RandomTree(context, vocabulary_, id.session + 1);
    return verifier_->Prefill({id, 0, prompt.tokens()}).status();
  }

  void RemoveLast() {
    if (forest_.empty()) return;
    verifier_->Close(forest_.back().sequence);
    forest_.pop_back();
  }

  // The verifier's own time, in seconds.
  absl::StatusOr<double> Measure() {
    ASSIGN_OR_RETURN(const VerifyResult result, verifier_->Verify(forest_, {}));
    for (size_t i = 0; i < forest_.size(); ++i) {
      RETURN_IF_ERROR(result.outcomes.at(i).status);
      forest_[i].cached += result.outcomes[i].acceptance.committed_length();
    }
    return absl::ToDoubleSeconds(result.trace.verify());
  }

 private:
  Verifier* const verifier_;
  const int vocabulary_;
  Forest forest_;
};

// True if `sequences` sequences and the one with a tree of as many rows fit into the KV cache, and
// into the maximum context. A tree may be accepted as a whole, every time.
bool Fits(const TargetInfo& target, const BatchProfileOptions& options, int sequences) {
  const int calls = options.repetitions + 1;
  const int each = options.context + calls + 1;
  const int one = options.context + (calls + 1) * sequences;
  return one <= target.max_context &&
         (target.page_tokens <= 0 || sequences * KvPages(target, each) + KvPages(target, one) <=
                                         target.kv_tokens / target.page_tokens);
}

}  // namespace

absl::StatusOr<double> MeasureSequenceSeconds(Verifier& verifier, const Clock& clock,
                                              const BatchProfileOptions& options) {
  ASSIGN_OR_RETURN(const TargetInfo target, verifier.Info());
  int most = std::min({options.sequences, target.max_rows, target.dims.vocabulary});
  while (most > 1 && !Fits(target, options, most)) --most;
  SequenceId id = {options.session, 0};
  Batch one(&verifier, target.dims.vocabulary), many(&verifier, target.dims.vocabulary);
  for (; many.sequences() < most; ++id.session) {
    const absl::Status added = many.Add(id, options.context, /*rows=*/1);
    if (absl::IsResourceExhausted(added)) break;
    RETURN_IF_ERROR(added);
  }
  // The tree of the single sequence has as many rows. Its sequence takes the place of the last one
  // if there is no other.
  if (many.sequences() < most) many.RemoveLast();
  const int rows = many.sequences();
  if (rows < 2) return 0.0;
  RETURN_IF_ERROR(one.Add(id, options.context, rows));
  // The fastest calls are the ones that no neighbor disturbed.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double seconds_one = kNever, seconds_many = kNever;
  const absl::Duration start = clock.Now();
  for (int i = 0; i <= options.repetitions; ++i) {
    ASSIGN_OR_RETURN(const double with_one, one.Measure());
    ASSIGN_OR_RETURN(const double with_many, many.Measure());
    if (i > 0) {  // The first repetition warms up.
      seconds_one = std::min(seconds_one, with_one);
      seconds_many = std::min(seconds_many, with_many);
    }
    if (i > 0 && clock.Now() - start > options.time_limit) break;
  }
  return std::max(0.0, seconds_many - seconds_one) / (rows - 1);
}

}  // namespace bastion
