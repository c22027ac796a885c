// StepStream: the client's side of a stream of step messages. One call at a time, each with a
// timeout.
// If the peer is late, the call times out and the stream stays open. A reply that arrives later is
// recognized by its step number and dropped. After the stream breaks, a later call reopens it, at
// most once per retry interval.
//
// Thread-compatible. The cycle's thread uses it.
#ifndef BASTION_COMMON_WIRE_STEP_STREAM_H_
#define BASTION_COMMON_WIRE_STEP_STREAM_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/message_stream.h"

namespace bastion::wire {

template <typename Request, typename Reply>
class StepStream {
 public:
  using Stream = MessageStream<Request, Reply>;
  using Opener = std::function<absl::StatusOr<std::unique_ptr<Stream>>(absl::Time deadline)>;

  // UNAVAILABLE if the peer is known to be lost. Called while a call waits.
  using CheckAlive = std::function<absl::Status()>;

  // `peer` names the other side in error messages. `check_alive` may be null.
  StepStream(std::string peer, Opener opener, CheckAlive check_alive = nullptr)
      : peer_(std::move(peer)), opener_(std::move(opener)), check_alive_(std::move(check_alive)) {}

  // Sends `request` with a new step number and waits for its reply.
  //   DEADLINE_EXCEEDED  no reply within `timeout`; the stream stays open
  //   UNAVAILABLE        no stream (the peer cannot be reached), it broke during the call or a
  //                      Post before it, or the peer was lost during the call
  // The reply's tensors can be read through carrier() until the next Call.
  [[nodiscard]] absl::StatusOr<Reply> Call(Request request, absl::Duration timeout) {
    // The peer has lost its state with the stream, so the caller must not miss that it ended.
    RETURN_IF_ERROR(std::exchange(unreported_, absl::OkStatus()));
    const absl::Time deadline = SteadyNow() + timeout;
    RETURN_IF_ERROR(EnsureOpen(deadline));
    request.set_step(++step_);
    RETURN_IF_ERROR(CheckStream(
        WaitFor(deadline, [&](absl::Time until) { return stream_->Send(request, until); })));
    Reply reply;
    for (;;) {
      RETURN_IF_ERROR(CheckStream(
          WaitFor(deadline, [&](absl::Time until) { return stream_->Receive(&reply, until); })));
      if (reply.step() == step_) return reply;
      // A peer that only sends replies to other steps is late too, and may be lost.
      if (check_alive_ != nullptr) {
        RETURN_IF_ERROR(CheckStream(check_alive_()));
      }
      if (SteadyNow() > deadline) {
        return CheckStream(absl::DeadlineExceededError("only replies to other steps"));
      }
    }
  }

  // Sends `request` and does not wait for its reply; a later Call drops the reply. Does nothing if
  // no stream is open. Returns false if the previous write blocks for longer than `timeout`; the
  // request is not sent then. If the stream has ended, the next Call returns the reason.
  bool Post(Request request, absl::Duration timeout) {
    if (stream_ == nullptr) return true;
    request.set_step(++step_);
    const absl::Status sent = CheckStream(stream_->Send(request, SteadyNow() + timeout));
    if (stream_ == nullptr) unreported_ = sent;
    return stream_ == nullptr || sent.ok();
  }

  // Closes the stream, if one is open. For a caller who knows that the peer is lost.
  void Drop() {
    stream_.reset();
    unreported_ = absl::OkStatus();
  }

  // Ends the retry interval. For a caller who knows that the peer is back.
  void RetryAtOnce() { retry_at_ = absl::InfinitePast(); }

  // True if a stream is open. It may have broken since the last call.
  [[nodiscard]] bool connected() const { return stream_ != nullptr; }
  // REQUIRES: connected().
  [[nodiscard]] Carrier& carrier() { return stream_->carrier(); }

 private:
  static constexpr absl::Duration kRetryInterval = absl::Milliseconds(200);
  // How often check_alive_ is called.
  static constexpr absl::Duration kCheckInterval = absl::Milliseconds(50);

  // Calls `attempt`, which sends or receives a message, until it succeeds or `deadline` is over.
  // The stream has ended if check_alive_ returns an error meanwhile.
  absl::Status WaitFor(absl::Time deadline, absl::FunctionRef<absl::Status(absl::Time)> attempt) {
    for (;;) {
      const absl::Time next_check =
          check_alive_ == nullptr ? deadline : std::min(deadline, SteadyNow() + kCheckInterval);
      absl::Status status = attempt(next_check);
      if (!absl::IsDeadlineExceeded(status) || next_check == deadline) return status;
      RETURN_IF_ERROR(check_alive_());
    }
  }

  // Opens a stream if there is none. Fails without an attempt during the retry interval.
  absl::Status EnsureOpen(absl::Time deadline) {
    if (stream_ != nullptr) return absl::OkStatus();
    if (SteadyNow() < retry_at_) return last_error_;
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
    retry_at_ = SteadyNow() + kRetryInterval;
    stream_.reset();
    return last_error_;
  }

  std::string peer_;
  Opener opener_;
  CheckAlive check_alive_;
  std::unique_ptr<Stream> stream_;
  uint64_t step_ = 0;
  absl::Time retry_at_ = absl::InfinitePast();
  absl::Status last_error_;
  absl::Status unreported_;  // Why the stream ended, if a Post noticed it. For the next Call.
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_STEP_STREAM_H_
