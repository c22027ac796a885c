// The client side of a stream of step messages: one call at a time, each with a deadline.
//
// A peer that is late costs the caller its patience and nothing more; its reply is recognised by
// its step number when it comes and dropped. A broken stream is opened again by the next call, with
// a pause in between.
//
// Thread-compatible: the cycle's thread.
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

  // Sends `request` under a fresh step number and waits for its reply.
  //   DEADLINE_EXCEEDED  no reply within `patience`; the stream stays open
  //   UNAVAILABLE        no stream (the peer is away), or it broke during the call
  // The reply's tensors are read through carrier(), until the next Call.
  [[nodiscard]] absl::StatusOr<Reply> Call(Request request, absl::Duration patience) {
    const absl::Time deadline = absl::Now() + patience;
    RETURN_IF_ERROR(Open(deadline));
    request.set_step(++step_);
    RETURN_IF_ERROR(Heed(stream_->Send(request, deadline)));
    Reply reply;
    for (;;) {
      RETURN_IF_ERROR(Heed(stream_->Receive(&reply, deadline)));
      if (reply.step() == step_) return reply;
      // Who has nothing but answers to earlier steps is late too.
      if (absl::Now() > deadline) return Heed(absl::DeadlineExceededError("earlier answers"));
    }
  }

  // Sends `request` and does not wait for its reply, which a later Call will drop. Does nothing
  // without an open stream, or when the last write is stuck for longer than `patience`.
  void Post(Request request, absl::Duration patience) {
    if (stream_ == nullptr) return;
    request.set_step(++step_);
    (void)Heed(stream_->Send(request, absl::Now() + patience));
  }

  // Whether a stream is open as far as this side knows.
  [[nodiscard]] bool connected() const { return stream_ != nullptr; }
  // REQUIRES: connected().
  [[nodiscard]] Carrier& carrier() { return stream_->carrier(); }

 private:
  absl::Status Open(absl::Time deadline) {
    if (stream_ != nullptr) return absl::OkStatus();
    if (absl::Now() < retry_at_) return last_error_;
    absl::StatusOr<std::unique_ptr<Stream>> opened = opener_(deadline);
    if (!opened.ok()) return Break(opened.status());
    stream_ = *std::move(opened);
    return absl::OkStatus();
  }

  // What `status` of the stream means for the caller. A stream that is over is dropped.
  absl::Status Heed(const absl::Status& status) {
    if (status.ok()) return status;
    if (!absl::IsDeadlineExceeded(status)) return Break(status);
    return absl::DeadlineExceededError(absl::StrCat(peer_, " did not answer in time"));
  }

  absl::Status Break(const absl::Status& why) {
    last_error_ =
        Annotate(why, absl::IsUnavailable(why) ? absl::StrCat(peer_, " is not reachable") : peer_);
    retry_at_ = absl::Now() + absl::Milliseconds(200);
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
