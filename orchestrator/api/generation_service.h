// GenerationService: the public API as a gRPC service. The scheduler does the decoding; the thread
// of a call only writes its events. Clients see only the statuses of generation.proto
// (public_status.h). Thread-safe.
#ifndef BASTION_ORCHESTRATOR_API_GENERATION_SERVICE_H_
#define BASTION_ORCHESTRATOR_API_GENERATION_SERVICE_H_

#include <string>

#include "bastion/v1/generation.grpc.pb.h"
#include "common/host/call_watchdog.h"
#include "common/telemetry/tracer.h"
#include "common/wire/security.h"
#include "orchestrator/api/call_trace.h"
#include "orchestrator/api/submitted_call.h"
#include "orchestrator/intake/request_intake.h"

namespace bastion {

struct GenerationServiceOptions {
  Tracer* tracer = nullptr;  // Traces calls. Not owned.
  // Callers need Right::kGenerate.
  std::shared_ptr<const wire::Security> security = wire::Security::None();
  // Cancels a call whose client has not read the rest of its answer this long after the answer has
  // ended. Null: no limit. Not owned.
  wire::CallWatchdog* watchdog = nullptr;
  absl::Duration slow_client = absl::Seconds(30);
};

class GenerationService final : public v1::GenerationService::Service {
 public:
  // All pointers must outlive this object.
  GenerationService(const CallOptions& calls, RequestIntake* intake,
                    const GenerationServiceOptions& options)
      : model_(calls.model), calls_(calls), intake_(intake), options_(options) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

 private:
  // A call of Generate.
  struct Call {
    grpc::ServerContext& context;
    const v1::GenerateRequest& request;
    const std::string request_id;
    grpc::ServerWriter<v1::GenerateResponse>& writer;
    CallTrace& trace;
  };
  // The caller's name; empty if callers need none. Errors: Security::Authorize.
  [[nodiscard]] absl::StatusOr<std::string> Authorize(const grpc::ServerContext& context) const;
  // Lets a call enter.
  [[nodiscard]] absl::StatusOr<RequestIntake::Entered> Enter(const Call& call);
  // Reports a refused call, and returns its status.
  [[nodiscard]] absl::Status Refuse(const absl::Status& status);
  // Serves a call.
  [[nodiscard]] absl::Status Serve(const Call& call);
  // Writes the events of the answers to the client until the end of all answers.
  [[nodiscard]] absl::Status WriteEvents(const Call& call, SubmittedCall& submitted);

  const ServedModel* const model_;
  const CallOptions calls_;
  RequestIntake* const intake_;
  const GenerationServiceOptions options_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_API_GENERATION_SERVICE_H_
