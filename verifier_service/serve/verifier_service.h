// The verifier over gRPC and shared memory: passes step messages to the engine and features to
// drafters.
//
// Each stream has its own thread (the sync API, because the callback API of this gRPC version
// stalls after idle periods). The engine runs one call at a time; the time that a call waits is the
// trace's `queue`. A stream is also a lease: when it ends, the sequences opened through it are
// closed.
#ifndef BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_
#define BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_

#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/wire/attach_server.h"
#include "common/wire/message_stream.h"
#include "common/wire/security.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"
#include "verifier_service/engine/verifier_engine.h"
#include "verifier_service/serve/verifier_telemetry.h"

namespace bastion::verifier {

namespace proto = internal::v1;

class VerifierService final : public proto::VerifierService::Service {
 public:
  // `engine` and `telemetry` must outlive the service. If `attach` is null, shared memory is not
  // offered. If `telemetry` is null, nothing is measured. `security` says who may call.
  explicit VerifierService(VerifierEngine* engine,
                           std::unique_ptr<wire::AttachServer> attach = nullptr,
                           VerifierTelemetry* telemetry = nullptr,
                           std::shared_ptr<const wire::Security> security = wire::Security::None())
      : engine_(engine),
        telemetry_(telemetry),
        security_(std::move(security)),
        attach_(std::move(attach)) {}

  // The state of the engine. Waits for the current call.
  [[nodiscard]] EngineState state() ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::Status GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest* request,
                       proto::TargetInfo* reply) override;
  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>* stream) override;
  grpc::Status Features(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::FeatureReply, proto::FeatureRequest>* stream) override;
  grpc::Status Attach(grpc::ServerContext* context, const proto::AttachRequest* request,
                      proto::AttachReply* reply) override;

 private:
  using Lease = std::set<SequenceId>;
  using StepMessages = wire::MessageStream<proto::VerifierReply, proto::VerifierRequest>;
  using FeatureMessages = wire::MessageStream<proto::FeatureReply, proto::FeatureRequest>;

  // Each handles the messages of its stream until the stream ends.
  void ServeSteps(StepMessages& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // `ring` was passed to the peer with the stream, or is null.
  [[nodiscard]] absl::Status ServeFeatures(FeatureMessages& stream, const char* carrier,
                                           const wire::DeviceRingWriter* ring = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The engine's ring if the peer is on the same GPU and accepts features of its type, else null.
  [[nodiscard]] std::shared_ptr<const wire::DeviceRingWriter> RingFor(
      const proto::AttachRequest& request) const;

  void Step(const proto::VerifierRequest& request, Lease& lease, proto::VerifierReply& reply)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Open(const proto::VerifierRequest::Open& request, Lease& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReusePrefix(const proto::VerifierRequest::ReusePrefix& request,
                           proto::VerifierReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `arrived`: when the call arrived, on Clock::Real().
  absl::Status Verify(const proto::VerifierRequest& request, absl::Duration arrived,
                      proto::VerifierReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  VerifierEngine* const engine_;  // Called under mutex_, except features().
  VerifierTelemetry* const telemetry_;
  const std::shared_ptr<const wire::Security> security_;
  // The last member, because its destructor ends the streams that use the others.
  const std::unique_ptr<wire::AttachServer> attach_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_
