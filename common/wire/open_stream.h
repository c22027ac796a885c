// Opens a stream over shared memory if the peer offers it, else over gRPC.
#ifndef BASTION_COMMON_WIRE_OPEN_STREAM_H_
#define BASTION_COMMON_WIRE_OPEN_STREAM_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/wire/attacher.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/shared_channel.h"

namespace bastion::wire {

// Opens a client's end that supports deadlines. `prepare` prepares the gRPC call. Errors: those of
// GrpcTimedStream::Open.
template <typename Request, typename Reply>
[[nodiscard]] absl::StatusOr<std::unique_ptr<MessageStream<Request, Reply>>> OpenTimedStream(
    Attacher& attacher,
    const std::function<std::unique_ptr<grpc::ClientAsyncReaderWriter<Request, Reply>>(
        grpc::ClientContext*, grpc::CompletionQueue*)>& prepare,
    absl::Time deadline) {
  if (std::shared_ptr<SharedChannel> channel = attacher.Attach(deadline)) {
    return std::make_unique<SharedStream<Request, Reply>>(std::move(channel));
  }
  return GrpcTimedStream<Request, Reply>::Open(prepare, deadline);
}

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_OPEN_STREAM_H_
