#include "verifier_service/engine/audit.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "verifier_service/verify/logit_edits.h"

namespace bastion::verifier {
namespace {

// The score by which a token is chosen: logit/T plus Gumbel noise, or the logit if T is 0.
float ScoreOf(const float* logits, TokenId token, Position position, const ChoiceParams& choice) {
  if (choice.temperature <= 0) return logits[token];
  return logits[token] / choice.temperature + KeyedGumbel(choice.seed, position, token);
}

}  // namespace

bool Audit::SelectNextCycle() {
  if (options_.fraction <= 0) return false;
  constexpr uint64_t kStream = 0xA0D17;
  return KeyedWords(kStream, 0, static_cast<uint32_t>(drawn_++))[0] < options_.fraction * 0x1p32;
}

Audit::PlainChoice Audit::DecodeOne(Sequence& sequence, Position position,
                                    const Committed& committed) {
  nn::RowBatch batch;
  batch.AddRun({&sequence.table, position, kernels::RowMask::kCausal}, {committed.token});
  const DraftTree root(committed.token);
  const absl::StatusOr<PlainStep> step = target_->DecodeOne(batch, {.tree = &root,
                                                                    .cached = position,
                                                                    .sampling = &sequence.sampling,
                                                                    .history = &sequence.history,
                                                                    .table = &sequence.table,
                                                                    .masks = &committed.allowed});
  sequence.history.Push(committed.token);
  if (!step.ok() || step->choice < 0) return {kNoToken, 0};
  EditRow(sequence.sampling, sequence.history, step->logits);
  return {step->choice, ScoreOf(step->logits, step->choice, position + 1, sequence.sampling) -
                            ScoreOf(step->logits, committed.next, position + 1, sequence.sampling)};
}

void Audit::Check(const VerifyItem& item, const Acceptance& acceptance, Sequence& sequence) {
  ++counts_.cycles;
  for (int i = 0; i < acceptance.committed_length(); ++i) sequence.history.Pop();
  NodeIndex node = 0;
  for (int i = 0; i < acceptance.committed_length(); ++i) {
    const bool last = i == static_cast<int>(acceptance.path.size());
    const TokenId taken = last ? acceptance.next : item.tree.token(acceptance.path[i]);
    Committed committed = {item.tree.token(node), taken, {}};
    if (const TokenSet* const allowed = item.masks.Of(node)) committed.allowed = {{*allowed}, {0}};
    const PlainChoice plain = DecodeOne(sequence, item.cached + i, committed);
    ++counts_.tokens;
    if (plain.token != taken) {
      const bool rounding = std::abs(plain.gap) <= options_.tolerance;
      ++(rounding ? counts_.within_tolerance : counts_.mismatches);
      if (!rounding) {
        const std::string tokens =
            options_.show_tokens ? absl::StrCat("committed token ", taken,
                                                ", but plain decoding chose ", plain.token)
                                 : "plain decoding chose another token than the committed one";
        Report(item, sequence,
               absl::StrCat("position ", item.cached + i + 1, ": ", tokens, ", better by ",
                            plain.gap));
      }
    }
    if (!last) node = acceptance.path[i];
  }
}

void Audit::Report(const VerifyItem& item, const Sequence& sequence,
                   const std::string& difference) const {
  const SamplingParams& sampling = sequence.sampling;
  if (!options_.show_tokens) {
    LOG(ERROR) << "audit: " << difference << ". --audit_show_tokens logs what a replay needs";
    return;
  }
  LOG(ERROR) << "audit: sequence " << item.sequence.session << ", " << difference
             << ". To replay: temperature " << sampling.temperature << ", seed " << sampling.seed
             << ", top_k " << sampling.top_k << ", top_p " << sampling.top_p << ", min_p "
             << sampling.min_p << ", repetition, presence, frequency penalty "
             << sampling.repetition_penalty << ", " << sampling.presence_penalty << ", "
             << sampling.frequency_penalty << ", the first " << sampling.prompt_tokens
             << " tokens of [" << absl::StrJoin(sequence.history.tokens(), " ")
             << "] as the prompt, tree [" << absl::StrJoin(item.tree.tokens(), " ")
             << "] with parents ["
             << absl::StrJoin(item.tree.parents(), " ", absl::StreamFormatter()) << "] after "
             << item.cached << " tokens";
}

}  // namespace bastion::verifier
