#include "bastion/rpc.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bastion/error_details.h"

namespace bastion {
namespace {

// A server that asks clients to wait for longer is not asked again.
constexpr absl::Duration kLongestPause = absl::Hours(1);

gpr_timespec DeadlineAfter(absl::Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
}

}  // namespace

Rpc::Rpc(std::shared_ptr<const Connection> connection, const RpcOptions& options,
         absl::Duration default_timeout)
    : connection_(std::move(connection)),
      options_(options),
      deadline_(DeadlineAfter(options.timeout.value_or(default_timeout))),
      backoff_(options.retry.initial_backoff) {}

absl::StatusOr<grpc::ClientContext*> Rpc::BeginAttempt() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(deadline_);
  if (absl::Status ready = connection_->Prepare(options_, *context); !ready.ok()) return ready;
  ++attempts_;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (canceled_) return absl::CancelledError("the client has canceled the call");
  context_ = std::move(context);
  return context_.get();
}

bool Rpc::AwaitRetry(const absl::Status& status) {
  const std::optional<absl::Duration> requested = DetailsOf(status).retry_delay;
  const bool is_temporary =
      absl::IsUnavailable(status) || (absl::IsResourceExhausted(status) && requested);
  if (!is_temporary || attempts_ >= options_.retry.max_attempts) return false;
  const absl::Duration backoff = std::min(backoff_, options_.retry.max_backoff);
  const absl::Duration pause =
      requested.value_or(absl::ZeroDuration()) + backoff * absl::Uniform(bits_, 0.5, 1.0);
  if (pause >= std::min(TimeLeft(), kLongestPause)) return false;
  backoff_ = backoff * options_.retry.multiplier;
  std::unique_lock<std::mutex> lock(mutex_);
  canceling_.wait_for(lock, absl::ToChronoNanoseconds(pause), [this] { return canceled_; });
  return true;
}

void Rpc::Cancel() {
  const std::lock_guard<std::mutex> lock(mutex_);
  canceled_ = true;
  if (context_ != nullptr) context_->TryCancel();
  canceling_.notify_all();
}

absl::Duration Rpc::TimeLeft() const {
  const gpr_timespec left = gpr_time_sub(deadline_, gpr_now(GPR_CLOCK_MONOTONIC));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace bastion
