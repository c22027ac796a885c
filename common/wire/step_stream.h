// StepStream: the client's side of a stream of step messages. One call at a time, each with a
// timeout.
// If the peer is late, the call times out and the stream stays open. A reply that arrives later is
// recognized by its step number and dropped. After the stream breaks, a later call reopens it, at
// most once per retry interval.
//
// Thread-compatible. The cycle's thread uses it.
#ifndef BASTION_COMMON_WIRE_STEP_STREAM_H_
#define BASTION_COMMON_WIRE_STEP_STREAM_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/wire/message_stream.h"

namespace bastion::wire {

template <typename Request, typename Reply>
class StepStream {
 public:
  using Stream = MessageStream<Request, Reply>;
  using Opener = std::function<absl::StatusOr<std::unique_ptr<Stream>>(absl::Time deadline)>;

  // `peer` names the other side in error messages.
  StepStream(std::string peer, Opener opener)
      : peer_(std::move(peer)), opener_(std::move(opener)) {}

  // Sends `request` with a new step number and waits for its reply.
  //   DEADLINE_EXCEEDED  no reply within `timeout`; the stream stays open
  //   UNAVAILABLE        no stream (the peer cannot be reached), or it broke during the call
  // The reply's tensors can be read through carrier() until the next Call.
  [[nodiscard]] absl::StatusOr<Reply> Call(Request request, absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    RETURN_IF_ERROR(EnsureOpen(deadline));
    request.set_step(++step_);
    RETURN_IF_ERROR(CheckStream(stream_->Send(request, deadline)));
    Reply reply;
    for (;;) {
      RETURN_IF_ERROR(CheckStream(stream_->Receive(&reply, deadline)));
      if (reply.step() == step_) return reply;
      // A peer that only sends replies to earlier steps is late too.
      if (absl::Now() > deadline) {
        return CheckStream(absl::DeadlineExceededError("only replies to earlier steps"));
      }
    }
  }

  // Sends `request` and does not wait for its reply; a later Call drops the reply. Does nothing if
  // no stream is open, or if the previous write blocks for longer than `timeout`.
  void Post(Request request, absl::Duration timeout) {
    if (stream_ == nullptr) return;
    request.set_step(++step_);
    (void)CheckStream(stream_->Send(request, absl::Now() + timeout));
  }

  // Ends the retry interval. For a caller who knows that the peer is back.
  void RetryAtOnce() { retry_at_ = absl::InfinitePast(); }

  // True if a stream is open. It may have broken since the last call.
  [[nodiscard]] bool connected() const { return stream_ != nullptr; }
  // REQUIRES: connected().
  [[nodiscard]] Carrier& carrier() { return stream_->carrier(); }

 private:
  static constexpr absl::Duration kRetryInterval = absl::Milliseconds(200);

  // Opens a stream if there is none. Fails without an attempt during the retry interval.
  absl::Status EnsureOpen(absl::Time deadline) {
    if (stream_ != nullptr) return absl::OkStatus();
    if (absl::Now() < retry_at_) return last_error_;
    absl::StatusOr<std::unique_ptr<Stream>> opened = opener_(deadline);
    if (!opened.ok()) return DropStream(opened.status());
    stream_ = *std::move(opened);
    return absl::OkStatus();
  }

  // Converts a status of the stream to the status that the caller gets. Drops a stream that has
  // ended.
  absl::Status CheckStream(const absl::Status& status) {
    if (status.ok()) return status;
    if (!absl::IsDeadlineExceeded(status)) return DropStream(status);
    return absl::DeadlineExceededError(absl::StrCat(peer_, " did not answer in time"));
  }

  absl::Status DropStream(const absl::Status& reason) {
    last_error_ = Annotate(
        reason, absl::IsUnavailable(reason) ? absl::StrCat(peer_, " is not reachable") : peer_);
    retry_at_ = absl::Now() + kRetryInterval;
    stream_.reset();
    return last_error_;
  }

  std::string peer_;
  Opener opener_;
  std::unique_ptr<Stream> stream_;
  uint64_t step_ = 0;
  absl::Time retry_at_ = absl::InfinitePast();
  absl::Status last_error_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_STEP_STREAM_H_
