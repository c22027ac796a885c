// The drafter behind gRPC and shared memory. One thread per stream, one engine call at a time; when
// a stream ends, the sequences it drafted for are closed.
#ifndef BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_SERVICE_H_
#define BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_SERVICE_H_

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/wire/attach_server.h"
#include "common/wire/message_stream.h"
#include "drafter_service/engine/drafter_engine.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"

namespace bastion::drafter {

namespace proto = internal::v1;

class DrafterService final : public proto::DrafterService::Service {
 public:
  // `engine` must outlive the service. `on_close` hears of every closed sequence. Without `attach`
  // there is no shared memory.
  DrafterService(DrafterEngine* engine, std::function<void(SequenceId)> on_close,
                 std::unique_ptr<wire::AttachServer> attach = nullptr)
      : engine_(engine), on_close_(std::move(on_close)), attach_(std::move(attach)) {}

  grpc::Status GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest* request,
                       proto::DrafterInfo* reply) override;
  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) override;
  grpc::Status Attach(grpc::ServerContext* context, const proto::AttachRequest* request,
                      proto::AttachReply* reply) override;

  // News from the feature stream, on its thread: a draft that is made ahead is made here. Does
  // nothing while a call is at work, which fetches what it needs itself.
  void FeaturesArrived(SequenceId sequence, Position committed, TokenId root)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Stream = wire::MessageStream<proto::DrafterReply, proto::DrafterRequest>;

  // What one stream is served with.
  struct Client {
    std::set<SequenceId> lease;
    wire::Carrier* carrier;
  };

  // Until the stream is over.
  void Serve(Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void Step(const proto::DrafterRequest& request, Client& client, proto::DrafterReply& reply)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Expand(const proto::DrafterRequest::Expand& request, Client& client,
                      proto::DrafterReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(SequenceId sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  DrafterEngine* const engine_;
  const std::function<void(SequenceId)> on_close_;
  const std::unique_ptr<wire::AttachServer> attach_;  // Last: it ends the streams it serves.
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_SERVICE_H_
