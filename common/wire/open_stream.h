// Opens a stream over shared memory if the peer offers it, else over gRPC.
#ifndef BASTION_COMMON_WIRE_OPEN_STREAM_H_
#define BASTION_COMMON_WIRE_OPEN_STREAM_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/wire/attacher.h"
#include "common/wire/counted_stream.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/shared_channel.h"

namespace bastion::wire {

// Opens a client's end that supports deadlines. `prepare` prepares the gRPC call. `attacher` must
// outlive the stream, whose bytes it counts. Errors: those of Attacher::Attach and
// GrpcTimedStream::Open.
template <typename Request, typename Reply>
[[nodiscard]] absl::StatusOr<std::unique_ptr<MessageStream<Request, Reply>>> OpenTimedStream(
    Attacher& attacher,
    const std::function<std::unique_ptr<grpc::ClientAsyncReaderWriter<Request, Reply>>(
        grpc::ClientContext*, grpc::CompletionQueue*)>& prepare,
    absl::Time deadline) {
  std::unique_ptr<MessageStream<Request, Reply>> stream;
  ASSIGN_OR_RETURN(std::shared_ptr<SharedChannel> channel, attacher.Attach(deadline));
  const bool shared = channel != nullptr;
  if (shared) {
    stream = std::make_unique<SharedStream<Request, Reply>>(std::move(channel));
  } else {
    ASSIGN_OR_RETURN(stream, (GrpcTimedStream<Request, Reply>::Open(prepare, deadline)));
  }
  return std::make_unique<CountedStream<Request, Reply>>(std::move(stream), shared,
                                                         &attacher.stats());
}

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_OPEN_STREAM_H_
