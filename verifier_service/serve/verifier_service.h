// The verifier over gRPC and shared memory: passes step messages to the engine and features to
// drafters.
//
// The engine runs one call at a time; the time that a call waits is the trace's `queue`. A stream
// is also a lease: when it ends, the sequences opened through it are closed. No other stream can
// use them.
#ifndef BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_
#define BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/host/stage_shell.h"
#include "common/wire/attach_server.h"
#include "common/wire/message_stream.h"
#include "common/wire/security.h"
#include "verifier_service/engine/verifier_engine.h"
#include "verifier_service/serve/verifier_telemetry.h"

namespace bastion::verifier {

namespace proto = internal::v1;

class VerifierService final : public proto::VerifierService::Service {
 public:
  // `engine` and `telemetry` must outlive the service. If `attach` is null, shared memory is not
  // offered. If `telemetry` is null, nothing is measured. `security` says who may call. A stream
  // may have at most `max_stream_sequences` open sequences; 0: no limit.
  explicit VerifierService(VerifierEngine* engine,
                           std::unique_ptr<wire::AttachServer> attach = nullptr,
                           VerifierTelemetry* telemetry = nullptr,
                           std::shared_ptr<const wire::Security> security = wire::Security::None(),
                           int max_stream_sequences = 0)
      : engine_(engine),
        telemetry_(telemetry),
        max_stream_sequences_(static_cast<size_t>(max_stream_sequences)),
        shell_("verifier", std::move(attach), std::move(security)) {}

  // False if the engine hangs (EngineMeter). Thread-safe.
  [[nodiscard]] bool is_alive() { return shell_.is_alive(); }
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
  // The sequences that belong to one stream. The destructor closes them.
  class Lease {
   public:
    explicit Lease(VerifierService* service) : service_(service) {}
    ~Lease() { service_->CloseAll(*this); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    std::set<SequenceId> sequences;  // Used under the service's mutex_.

   private:
    VerifierService* const service_;
  };
  struct Owner {
    Lease* lease = nullptr;
    SequenceId sequence;
    std::string secret;  // The client's secret; empty if it has none.
  };
  using StepMessages = wire::MessageStream<proto::VerifierReply, proto::VerifierRequest>;
  using FeatureMessages = wire::MessageStream<proto::FeatureReply, proto::FeatureRequest>;

  // Closes the sequences of `lease`.
  void CloseAll(Lease& lease) ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes `sequence` unless it belongs to another stream.
  void Close(SequenceId sequence, Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // NOT_FOUND if the session belongs to another stream.
  [[nodiscard]] absl::Status CheckOwner(SequenceId sequence, const Lease& lease) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets the layers for a drafter that subscribes. FAILED_PRECONDITION while another drafter is
  // subscribed to other layers.
  [[nodiscard]] absl::Status Subscribe(const std::vector<int>& layers) ABSL_LOCKS_EXCLUDED(mutex_);
  void Unsubscribe() ABSL_LOCKS_EXCLUDED(mutex_);

  // How features reach a drafter.
  struct FeaturePath {
    const char* carrier = "gRPC";
    // The engine's ring, which was passed to the drafter with the stream. Null: none was.
    std::shared_ptr<const wire::DeviceRingWriter> ring = nullptr;
    const char* description = "as bytes";
  };

  // Each handles the messages of its stream until the stream ends.
  [[nodiscard]] absl::Status ServeSteps(StepMessages& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  [[nodiscard]] absl::Status ServeFeatures(FeatureMessages& stream, FeaturePath path)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Over shared memory. With the engine's ring if the drafter's GPU can read its memory and the
  // drafter accepts features of its type there.
  [[nodiscard]] FeaturePath PathFor(const proto::AttachRequest& request) const;

  // Runs the call of `request`. `arrived`: when it arrived, on Clock::Real().
  absl::Status Run(const proto::VerifierRequest& request, absl::Duration arrived, Lease& lease,
                   proto::VerifierReply& reply) ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED if the stream has too many sequences. Other errors: the engine's,
  // CheckOwner.
  absl::Status Open(const proto::VerifierRequest::Open& request, Lease& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReusePrefix(const proto::VerifierRequest::ReusePrefix& request, const Lease& lease,
                           proto::VerifierReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Verify(const proto::VerifierRequest& request, absl::Duration arrived,
                      const Lease& lease, proto::VerifierReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  VerifierEngine* const engine_;  // Called under mutex_, except features().
  absl::flat_hash_map<uint64_t, Owner> owners_ ABSL_GUARDED_BY(mutex_);  // By session.
  int subscribers_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int> layers_ ABSL_GUARDED_BY(mutex_);  // Those of all subscribers.
  VerifierTelemetry* const telemetry_;
  const size_t max_stream_sequences_;
  // The last member, because its destructor ends the streams that use the others.
  wire::StageShell shell_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_SERVE_VERIFIER_SERVICE_H_
