// The client side of a stream of step messages: one call at a time, each with a deadline.
//
// Made on a completion queue, because the sync API cannot give up waiting: a peer that is late
// costs the caller its patience and nothing more; its reply is recognised by its step number when
// it comes and dropped. A broken stream is opened again by the next call, with a pause in between.
//
// Thread-compatible: the cycle's thread.
#ifndef BASTION_COMMON_WIRE_STEP_STREAM_H_
#define BASTION_COMMON_WIRE_STEP_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/wire/protocol.h"

namespace bastion::wire {

template <typename Request, typename Reply>
class StepStream {
 public:
  using Stream = grpc::ClientAsyncReaderWriter<Request, Reply>;
  // Starts the RPC on the given context and queue: `stub->PrepareAsyncSteps(context, queue)`.
  using Opener =
      std::function<std::unique_ptr<Stream>(grpc::ClientContext*, grpc::CompletionQueue*)>;

  // `peer` names the other side in error messages.
  StepStream(std::string peer, Opener opener)
      : peer_(std::move(peer)), opener_(std::move(opener)) {}
  ~StepStream() { Drop(); }
  StepStream(const StepStream&) = delete;
  StepStream& operator=(const StepStream&) = delete;

  // Sends `request` under a fresh step number and waits for its reply.
  //   DEADLINE_EXCEEDED  no reply within `patience`; the stream stays open
  //   UNAVAILABLE        no stream (the peer is away), or it broke during the call
  [[nodiscard]] absl::StatusOr<Reply> Call(Request request, absl::Duration patience) {
    const absl::Time deadline = absl::Now() + patience;
    if (absl::Status opened = Open(deadline); !opened.ok()) return opened;
    request.set_step(++step_);
    // The last call may have given up while its write was still on the way.
    if (absl::Status idle = Pump(deadline, [&] { return !writing_; }); !idle.ok()) return idle;
    writing_ = true;
    state_->stream->Write(request, Tag(kWrite));
    bool answered = false;
    Reply reply;
    absl::Status waited = Pump(deadline, [&] {
      if (!read_done_) return false;
      read_done_ = false;
      if (state_->reply.step() == step_) {
        reply.Swap(&state_->reply);
        answered = true;
      }
      state_->stream->Read(&state_->reply, Tag(kRead));
      return answered;
    });
    if (!waited.ok()) return waited;
    return reply;
  }

  // Sends `request` and does not wait for its reply, which a later Call will drop. Does nothing
  // without an open stream, or when the last write is stuck for longer than `patience`.
  void Post(Request request, absl::Duration patience) {
    if (state_ == nullptr) return;
    request.set_step(++step_);
    if (!Pump(absl::Now() + patience, [&] { return !writing_; }).ok()) return;
    writing_ = true;
    state_->stream->Write(request, Tag(kWrite));
  }

  // Whether a stream is open as far as this side knows.
  [[nodiscard]] bool connected() const { return state_ != nullptr; }

 private:
  enum Operation : intptr_t { kStart = 1, kWrite, kRead, kFinish };

  struct State {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    std::unique_ptr<Stream> stream;
    Reply reply;
  };

  static void* Tag(Operation operation) { return reinterpret_cast<void*>(operation); }

  absl::Status Open(absl::Time deadline) {
    if (state_ != nullptr) return absl::OkStatus();
    if (absl::Now() < retry_at_) return last_error_;
    state_ = std::make_unique<State>();
    StateProtocol(state_->context);
    state_->stream = opener_(&state_->context, &state_->queue);
    started_ = writing_ = read_done_ = false;
    state_->stream->StartCall(Tag(kStart));
    const absl::Status started = Pump(deadline, [&] { return started_; });
    if (!started.ok()) {
      if (state_ != nullptr) Break(started);
      return started;
    }
    state_->stream->Read(&state_->reply, Tag(kRead));
    return absl::OkStatus();
  }

  // Handles completions until `done`. A failed operation ends the stream.
  template <typename Done>
  absl::Status Pump(absl::Time deadline, Done done) {
    while (!done()) {
      void* tag = nullptr;
      bool ok = false;
      const auto next = state_->queue.AsyncNext(&tag, &ok, absl::ToChronoTime(deadline));
      if (next == grpc::CompletionQueue::TIMEOUT) {
        return absl::DeadlineExceededError(absl::StrCat(peer_, " did not answer in time"));
      }
      if (next == grpc::CompletionQueue::SHUTDOWN || !ok) return Fail(tag);
      switch (static_cast<Operation>(reinterpret_cast<intptr_t>(tag))) {
        case kStart:
          started_ = true;
          break;
        case kWrite:
          writing_ = false;
          break;
        case kRead:
          read_done_ = true;
          break;
        case kFinish:
          break;
      }
    }
    return absl::OkStatus();
  }

  // Asks the broken stream for its status, drops it, and remembers why.
  absl::Status Fail(void* failed) {
    grpc::Status status;
    absl::Status error = absl::UnavailableError(absl::StrCat(peer_, " is not reachable"));
    if (failed != nullptr) {
      state_->context.TryCancel();
      state_->stream->Finish(&status, Tag(kFinish));
      void* tag = nullptr;
      bool ok = false;
      while (
          state_->queue.AsyncNext(&tag, &ok, absl::ToChronoTime(absl::Now() + absl::Seconds(1))) ==
          grpc::CompletionQueue::GOT_EVENT) {
        if (tag == Tag(kFinish)) break;
      }
      if (!status.ok() && status.error_code() != grpc::StatusCode::CANCELLED) {
        const bool lost = status.error_code() == grpc::StatusCode::UNAVAILABLE;
        error = lost ? absl::UnavailableError(
                           absl::StrCat(peer_, " is not reachable: ", status.error_message()))
                     : FromGrpc(status);
      }
    }
    Break(error);
    return error;
  }

  void Break(const absl::Status& error) {
    last_error_ = error;
    retry_at_ = absl::Now() + absl::Milliseconds(200);
    Drop();
  }

  void Drop() {
    if (state_ == nullptr) return;
    state_->context.TryCancel();
    state_->queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (state_->queue.Next(&tag, &ok)) {
    }
    state_.reset();
  }

  std::string peer_;
  Opener opener_;
  std::unique_ptr<State> state_;
  uint64_t step_ = 0;
  bool started_ = false, writing_ = false, read_done_ = false;
  absl::Time retry_at_ = absl::InfinitePast();
  absl::Status last_error_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_STEP_STREAM_H_
