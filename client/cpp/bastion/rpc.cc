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
// How often a pause without a connection looks for Cancel.
constexpr absl::Duration kCancelInterval = absl::Milliseconds(50);

gpr_timespec DeadlineAfter(absl::Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
}

absl::Duration TimeUntil(gpr_timespec deadline) {
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
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
  if (pause >= std::min(TimeUntil(deadline_), kLongestPause)) return false;
  backoff_ = backoff * options_.retry.multiplier;
  Pause(pause);
  return true;
}

void Rpc::Pause(absl::Duration pause) {
  const gpr_timespec end = DeadlineAfter(pause);
  grpc::Channel& channel = *connection_->channel();
  for (;;) {
    const absl::Duration left = TimeUntil(end);
    if (left <= absl::ZeroDuration()) return;
    const bool connected = channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const absl::Duration wait = connected ? left : absl::ZeroDuration();
      const auto canceled = [this] { return canceled_; };
      if (canceling_.wait_for(lock, absl::ToChronoNanoseconds(wait), canceled)) return;
    }
    if (!connected) channel.WaitForConnected(DeadlineAfter(std::min(left, kCancelInterval)));
  }
}

void Rpc::Cancel() {
  const std::lock_guard<std::mutex> lock(mutex_);
  canceled_ = true;
  if (context_ != nullptr) context_->TryCancel();
  canceling_.notify_all();
}

}  // namespace bastion
