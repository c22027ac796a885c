// The verifier behind gRPC: step messages to the engine, features to drafters.
//
// One thread per stream (sync API: the callback API of this gRPC stalls after idle). The engine
// runs one call at a time; the wait for it is the trace's `queue`. A stream is also a lease: when
// it ends, the sequences opened through it are closed.
#ifndef BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_
#define BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_

#include <set>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"
#include "verifier_service/session/verifier_engine.h"

namespace bastion::verifier {

namespace proto = internal::v1;

class VerifierService final : public proto::VerifierService::Service {
 public:
  // `engine` must outlive the service.
  explicit VerifierService(VerifierEngine* engine) : engine_(engine) {}

  grpc::Status GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest* request,
                       proto::TargetInfo* reply) override;
  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>* stream) override;
  grpc::Status Features(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::FeatureReply, proto::FeatureRequest>* stream) override;

 private:
  using Lease = std::set<SequenceId>;

  void Step(const proto::VerifierRequest& request, Lease& lease, proto::VerifierReply& reply)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Open(const proto::VerifierRequest::Open& request, Lease& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Prefill(const proto::VerifierRequest::Prefill& request, proto::VerifierReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Verify(const proto::VerifierRequest::Verify& request, absl::Duration queued,
                      proto::VerifierReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  VerifierEngine* const engine_;  // Calls under mutex_; features() is thread-safe.
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_
