// GenerationService: the public API as a gRPC service. The scheduler does the decoding; the thread
// of a call only writes its events. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_GENERATION_SERVICE_H_
#define BASTION_ORCHESTRATOR_SERVE_GENERATION_SERVICE_H_

#include <string>

#include "common/telemetry/tracer.h"
#include "common/wire/security.h"
#include "orchestrator/serve/call_trace.h"
#include "orchestrator/serve/request_parser.h"
#include "orchestrator/serve/scheduler.h"
#include "orchestrator/serve/serving_observer.h"
#include "protos/bastion/v1/generation.grpc.pb.h"

namespace bastion {

struct GenerationServiceOptions {
  // The minimum time between two deltas of an answer. Output that is decoded in between is sent
  // together.
  absl::Duration stream_interval;
  ServingObserver* observer = nullptr;  // Is told of requests. Not owned.
  Tracer* tracer = nullptr;             // Traces calls. Not owned.
  // Callers need Right::kGenerate.
  std::shared_ptr<const wire::Security> security = wire::Security::None();
};

class GenerationService final : public v1::GenerationService::Service {
 public:
  // All pointers must outlive this object.
  GenerationService(const ServedModel* model, const RequestParser* parser, Scheduler* scheduler,
                    const GenerationServiceOptions& options)
      : model_(model), parser_(parser), scheduler_(scheduler), options_(options) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

 private:
  // The checked request of a call.
  [[nodiscard]] absl::StatusOr<PreparedRequest> Prepare(const grpc::ServerContext& context,
                                                        const v1::GenerateRequest& request) const;
  // Reports a refused call, and returns its status.
  [[nodiscard]] grpc::Status Refuse(const absl::Status& status);
  // Serves a call. `trace` is its span.
  [[nodiscard]] grpc::Status Serve(grpc::ServerContext* context, const v1::GenerateRequest& request,
                                   grpc::ServerWriter<v1::GenerateResponse>* writer,
                                   CallTrace* trace);
  // The stream of a call and where its events go.
  struct Output {
    const hub::Tokenizer& tokenizer;
    grpc::ServerContext& context;
    const v1::OutputOptions& wanted;
    RequestStream& stream;
    grpc::ServerWriter<v1::GenerateResponse>& writer;
    CallTrace& trace;
  };
  // Writes the events of the stream to the client until the end of all answers.
  [[nodiscard]] static absl::Status WriteEvents(const Output& output);

  const ServedModel* const model_;
  const RequestParser* const parser_;
  Scheduler* const scheduler_;
  const GenerationServiceOptions options_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_GENERATION_SERVICE_H_
