#include "orchestrator/schedule/verifier_loss.h"

#include <utility>

#include "common/base/check.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

using Request = RunningRequests::Request;

// A request runs alone once the verifier was lost in this many of its calls without output in
// between. If it ends the verifier, it takes no other request with it.
constexpr int kSuspectLosses = 2;
// A request fails if the verifier is lost more often than this during its calls, without output in
// between. The request has run alone during the last two losses, so it is the one that ends the
// verifier.
constexpr int kMaxLosses = 3;

absl::Status ModelGone() {
  return ForClient(absl::UnavailableError("the model is not available; try again later"));
}

}  // namespace

void VerifierLoss::SetLastCall(const ServedCycle& call) {
  for (const Request& request : running_.all()) request->in_last_call = false;
  for (LiveRequest* request : call.decoding) request->in_last_call = true;
  for (const ServedChunk& chunk : call.chunks) chunk.request->in_last_call = true;
}

const LiveRequest* VerifierLoss::Suspect() const {
  const LiveRequest* suspect = nullptr;
  for (const Request& request : running_.all()) {
    if (request->losses() < kSuspectLosses || !request->CanRun()) continue;
    if (suspect == nullptr || request->losses() < suspect->losses()) suspect = request.get();
  }
  return suspect;
}

void VerifierLoss::Lose(const absl::Status& reason) {
  LOG(ERROR) << "the verifier is lost; " << running_.size()
             << " running requests wait for it up to " << patience_ << ": " << reason;
  if (!lost_at_.has_value()) lost_at_ = clock_.Now();
  link_.Lose(ModelGone());
  SuspendAll();
}

void VerifierLoss::SuspendAll() {
  while (!running_.empty()) {
    Request request = running_.Suspend(running_.size() - 1);
    if (std::exchange(request->in_last_call, false)) request->CountLoss();
    if (request->admitted() && request->losses() <= kMaxLosses) {
      running_.Requeue(std::move(request));
    } else {
      running_.Fail(
          request,
          ForClient(absl::UnavailableError("the model failed repeatedly during this request")));
    }
  }
}

void VerifierLoss::CheckPatience() {
  if (!lost_at_.has_value() || clock_.Now() - *lost_at_ < patience_) return;
  lost_at_.reset();
  running_.FailAll(ModelGone());
}

}  // namespace bastion
