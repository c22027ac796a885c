// Message streams over gRPC, for servers and clients. Tensors are inline.
#ifndef BASTION_COMMON_WIRE_GRPC_STREAM_H_
#define BASTION_COMMON_WIRE_GRPC_STREAM_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/message_stream.h"
#include "common/wire/protocol.h"

namespace bastion::wire {

// The server's end. It ignores deadlines.
template <typename Reply, typename Request>
class GrpcServerStream final : public MessageStream<Reply, Request> {
 public:
  // REQUIRES: `context` and `stream` outlive this object.
  GrpcServerStream(grpc::ServerContext* context, grpc::ServerReaderWriter<Reply, Request>* stream)
      : context_(context), stream_(stream) {}

  absl::Status Send(const Reply& reply, absl::Time) override {
    return stream_->Write(reply) ? absl::OkStatus() : CallEnded();
  }
  absl::Status Receive(Request* request, absl::Time) override {
    return stream_->Read(request) ? absl::OkStatus() : CallEnded();
  }
  bool supports_deadlines() const override { return false; }
  void Cancel() override { context_->TryCancel(); }
  Carrier& carrier() override { return carrier_; }

 private:
  static absl::Status CallEnded() { return absl::UnavailableError("the caller ended the call"); }

  grpc::ServerContext* const context_;
  grpc::ServerReaderWriter<Reply, Request>* const stream_;
  InlineCarrier carrier_;
};

// A client's end that ignores deadlines. One thread may send while another receives.
template <typename Request, typename Reply>
class GrpcBlockingStream final : public MessageStream<Request, Reply> {
 public:
  using Stream = grpc::ClientReaderWriter<Request, Reply>;
  // `open` starts the call: `stub->Features(context)`.
  explicit GrpcBlockingStream(
      const std::function<std::unique_ptr<Stream>(grpc::ClientContext*)>& open) {
    AddProtocolVersion(context_);
    stream_ = open(&context_);
  }
  ~GrpcBlockingStream() override { Cancel(); }

  absl::Status Send(const Request& request, absl::Time) override {
    if (stream_->Write(request)) return absl::OkStatus();
    return absl::UnavailableError("the stream broke");  // Receive returns the reason.
  }
  absl::Status Receive(Reply* reply, absl::Time) override {
    if (stream_->Read(reply)) return absl::OkStatus();
    const absl::Status reason = FromGrpc(stream_->Finish());
    return reason.ok() ? absl::UnavailableError("the peer ended the stream") : reason;
  }
  bool supports_deadlines() const override { return false; }
  void Cancel() override { context_.TryCancel(); }
  Carrier& carrier() override { return carrier_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  InlineCarrier carrier_;
};

// A client's end with deadlines, for one thread. It uses a completion queue because calls of the
// sync API have no timeout.
template <typename Request, typename Reply>
class GrpcTimedStream final : public MessageStream<Request, Reply> {
 public:
  using Stream = grpc::ClientAsyncReaderWriter<Request, Reply>;
  // Prepares the call, e.g. `stub->PrepareAsyncSteps(context, queue)`.
  using Prepare =
      std::function<std::unique_ptr<Stream>(grpc::ClientContext*, grpc::CompletionQueue*)>;

  // Errors: UNAVAILABLE if the peer cannot be reached, else the status that the peer returned.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GrpcTimedStream>> Open(const Prepare& prepare,
                                                                             absl::Time deadline) {
    auto opened = std::unique_ptr<GrpcTimedStream>(new GrpcTimedStream());
    AddProtocolVersion(opened->context_);
    opened->stream_ = prepare(&opened->context_, &opened->queue_);
    opened->stream_->StartCall(Tag(kStart));
    RETURN_IF_ERROR(opened->Pump(deadline, [&] { return opened->started_; }));
    opened->stream_->Read(&opened->reply_, Tag(kRead));
    return opened;
  }
  ~GrpcTimedStream() override {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  absl::Status Send(const Request& request, absl::Time deadline) override {
    // Wait until the previous message is written.
    RETURN_IF_ERROR(Pump(deadline, [&] { return !writing_; }));
    writing_ = true;
    stream_->Write(request, Tag(kWrite));
    return absl::OkStatus();
  }
  absl::Status Receive(Reply* reply, absl::Time deadline) override {
    RETURN_IF_ERROR(Pump(deadline, [&] { return read_done_; }));
    read_done_ = false;
    reply->Swap(&reply_);
    stream_->Read(&reply_, Tag(kRead));
    return absl::OkStatus();
  }
  bool supports_deadlines() const override { return true; }
  void Cancel() override { context_.TryCancel(); }
  Carrier& carrier() override { return carrier_; }

 private:
  enum Operation : intptr_t { kStart = 1, kWrite, kRead, kFinish };

  GrpcTimedStream() = default;

  static void* Tag(Operation operation) {
    return reinterpret_cast<void*>(operation);  // NOLINT(performance-no-int-to-ptr): gRPC's idiom
  }

  // Handles completions until done() is true. A failed operation ends the stream.
  template <typename Done>
  absl::Status Pump(absl::Time deadline, Done done) {
    RETURN_IF_ERROR(final_status_);
    while (!done()) {
      void* tag = nullptr;
      bool ok = false;
      const auto next = queue_.AsyncNext(&tag, &ok, GrpcDeadline(deadline));
      if (next == grpc::CompletionQueue::TIMEOUT) {
        return absl::DeadlineExceededError("no message from the peer");
      }
      if (!ok) return final_status_ = ReadFinalStatus();
      if (tag == Tag(kStart)) started_ = true;
      if (tag == Tag(kWrite)) writing_ = false;
      if (tag == Tag(kRead)) read_done_ = true;
    }
    return absl::OkStatus();
  }

  // Reads the status of the stream after it broke.
  absl::Status ReadFinalStatus() {
    stream_->Finish(&finished_, Tag(kFinish));
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = GrpcDeadline(SteadyNow() + absl::Seconds(1));
    while (tag != Tag(kFinish) &&
           queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) {
    }
    // DEADLINE_EXCEEDED, e.g. from a proxy, would look like a message that is late.
    if (tag != Tag(kFinish) || finished_.ok() ||
        finished_.error_code() == grpc::StatusCode::CANCELLED ||
        finished_.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return absl::UnavailableError("the stream broke");
    }
    return FromGrpc(finished_);
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<Stream> stream_;
  Reply reply_;
  grpc::Status finished_;  // gRPC writes it before the kFinish event, perhaps in the destructor.
  bool started_ = false, writing_ = false, read_done_ = false;
  absl::Status final_status_;  // Not OK after the stream has ended.
  InlineCarrier carrier_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_GRPC_STREAM_H_
