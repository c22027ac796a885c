// Rpc: one call of a server, with its time limit, its attempts and its cancellation. Internal to
// the library.
#ifndef BASTION_CLIENT_CPP_BASTION_RPC_H_
#define BASTION_CLIENT_CPP_BASTION_RPC_H_

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "bastion/connection.h"
#include "bastion/grpc_status.h"
#include "bastion/options.h"

namespace bastion {

// One thread at a time makes the attempts. Any thread may call Cancel.
class Rpc {
 public:
  // The time of the call runs from here. `default_timeout` applies if the options have no timeout.
  Rpc(std::shared_ptr<const Connection> connection, const RpcOptions& options,
      absl::Duration default_timeout);

  // Returns the context of the next attempt, which lives until the next call of BeginAttempt.
  // CANCELLED after Cancel. INVALID_ARGUMENT if the options cannot be sent.
  [[nodiscard]] absl::StatusOr<grpc::ClientContext*> BeginAttempt();
  // If the call may be made again after an attempt that ended with `status`: waits until then, or
  // until Cancel, and returns true.
  [[nodiscard]] bool AwaitRetry(const absl::Status& status);
  // Ends the running attempt, and allows no other.
  void Cancel();

 private:
  // Waits for `pause`, or until Cancel. While there is no connection, this thread waits in gRPC:
  // its channels connect only while a thread does so, and the call that failed no longer does.
  void Pause(absl::Duration pause);

  const std::shared_ptr<const Connection> connection_;
  const RpcOptions options_;
  // On the monotonic clock: setting the machine's clock does not end calls.
  const gpr_timespec deadline_;
  int attempts_ = 0;
  absl::Duration backoff_;
  absl::BitGen bits_;
  std::mutex
      mutex_;  // Guards the members below. BeginAttempt's caller uses the context without it.
  std::condition_variable canceling_;
  bool canceled_ = false;
  std::unique_ptr<grpc::ClientContext> context_;
};

// Calls `send` until it succeeds, or until another attempt would not help.
template <typename Response>
absl::StatusOr<Response> CallUnary(
    Rpc rpc, absl::FunctionRef<grpc::Status(grpc::ClientContext*, Response*)> send) {
  for (;;) {
    const absl::StatusOr<grpc::ClientContext*> context = rpc.BeginAttempt();
    if (!context.ok()) return context.status();
    Response response;
    absl::Status status = FromGrpc(send(*context, &response));
    if (status.ok()) return response;
    if (!rpc.AwaitRetry(status)) return status;
  }
}

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_RPC_H_
