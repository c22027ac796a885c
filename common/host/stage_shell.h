// StageShell: what the gRPC services of both stages share. It checks callers, serves streams over
// gRPC and over shared memory, passes each step to the engine, and reports the engine's activity.
//
// Each stream has its own thread (the sync API, because the callback API of this gRPC version
// stalls after idle periods). An exception in the engine, e.g. for lack of memory, fails the step
// with INTERNAL.
#ifndef BASTION_COMMON_HOST_STAGE_SHELL_H_
#define BASTION_COMMON_HOST_STAGE_SHELL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "bastion/internal/v1/stages.pb.h"
#include "common/base/clock.h"
#include "common/stages/engine_meter.h"
#include "common/wire/attach_server.h"
#include "common/wire/codec.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/message_stream.h"
#include "common/wire/protocol.h"
#include "common/wire/security.h"

namespace bastion::wire {

// Thread-safe.
class StageShell {
 public:
  // The arguments of an Attach call.
  struct AttachCall {
    grpc::ServerContext* context;
    const AttachRequest* request;
    AttachReply* reply;
  };

  // `name`: of the service, for errors, e.g. "verifier". If `attach` is null, shared memory is not
  // offered. `security` says who may call.
  StageShell(std::string name, std::unique_ptr<AttachServer> attach,
             std::shared_ptr<const Security> security)
      : name_(std::move(name)), security_(std::move(security)), attach_(std::move(attach)) {}

  // False if the engine hangs (EngineMeter).
  [[nodiscard]] bool is_alive() { return !meter_.hangs(); }

  // Handles GetInfo: replies `info` and the engine's activity.
  template <typename Info, typename Reply>
  grpc::Status GetInfo(const grpc::ServerContext& context, Right right, const Info& info,
                       Reply& reply) {
    if (const auto allowed = CheckCaller(context, *security_, right); !allowed.ok()) {
      return ToGrpc(allowed);
    }
    Encode(info, reply);
    Encode(meter_.activity(), *reply.mutable_activity());
    return grpc::Status::OK;
  }

  // Handles a call that is a stream: passes it to `serve`, which returns when the stream ends.
  template <typename Reply, typename Request>
  grpc::Status Stream(grpc::ServerContext* context, Right right,
                      grpc::ServerReaderWriter<Reply, Request>* stream,
                      absl::FunctionRef<absl::Status(MessageStream<Reply, Request>&)> serve) {
    if (const auto allowed = CheckCaller(*context, *security_, right); !allowed.ok()) {
      return ToGrpc(allowed);
    }
    GrpcServerStream<Reply, Request> messages(context, stream);
    return ToGrpc(serve(messages));
  }

  // Handles Attach for the streams of `kind`: passes the stream over shared memory to `serve`, on
  // its own thread. `ring` is passed to the peer too, unless it is null. UNIMPLEMENTED for streams
  // of another kind and without shared memory.
  template <typename Reply, typename Request>
  grpc::Status Attach(const AttachCall& call, Right right, AttachRequest::Stream kind,
                      std::function<absl::Status(MessageStream<Reply, Request>&)> serve,
                      std::shared_ptr<const DeviceRingWriter> ring = nullptr) {
    if (const auto allowed = CheckAttach(call, right, kind); !allowed.ok()) return ToGrpc(allowed);
    const auto serve_channel = [serve = std::move(serve)](std::shared_ptr<SharedChannel> channel) {
      SharedStream<Reply, Request> messages(std::move(channel));
      return serve(messages);
    };
    return ToGrpc(attach_->Offer(*call.request, serve_channel, *call.reply, std::move(ring)));
  }

  // Passes each request of `stream` to `run` and sends its reply, until the stream ends. `arrived`:
  // when the request arrived, on Clock::Real(). The reply's status is what `run` returns.
  template <typename Reply, typename Request>
  void ServeSteps(
      MessageStream<Reply, Request>& stream,
      absl::FunctionRef<absl::Status(const Request&, absl::Duration arrived, Reply&)> run) {
    Request request;
    while (stream.Receive(&request, absl::InfiniteFuture()).ok()) {
      Reply reply;
      const absl::Duration arrived = Clock::Real().Now();
      {
        const EngineMeter::Call call(&meter_);
        const absl::Status status = RunStep([&] { return run(request, arrived, reply); }, reply);
        reply.set_step(request.step());
        Encode(status, *reply.mutable_status());
      }
      if (!stream.Send(reply, SteadyNow() + kSendLimit).ok()) break;
    }
  }

 private:
  // The caller's right, then what Attach refuses.
  [[nodiscard]] absl::Status CheckAttach(const AttachCall& call, Right right,
                                         AttachRequest::Stream kind) const;
  // Runs `step`, which fills `reply`. An exception clears the reply and becomes INTERNAL; the log
  // has its text.
  [[nodiscard]] absl::Status RunStep(absl::FunctionRef<absl::Status()> step,
                                     google::protobuf::Message& reply) const;

  EngineMeter meter_;
  const std::string name_;
  const std::shared_ptr<const Security> security_;
  // The last member, because its destructor ends the streams that use the others.
  const std::unique_ptr<AttachServer> attach_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_STAGE_SHELL_H_
