// GenerationService: the public API as a gRPC service. The scheduler does the decoding; the thread
// of a call only writes its events. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_GENERATION_SERVICE_H_
#define BASTION_ORCHESTRATOR_SERVE_GENERATION_SERVICE_H_

#include <string>

#include "orchestrator/serve/request_parser.h"
#include "orchestrator/serve/scheduler.h"
#include "protos/bastion/v1/generation.grpc.pb.h"

namespace bastion {

class GenerationService final : public v1::GenerationService::Service {
 public:
  // All pointers must outlive this object. `stream_interval` is the minimum time between two deltas
  // of an answer; output that is decoded in between is sent together.
  GenerationService(const ServedModel* model, const RequestParser* parser, Scheduler* scheduler,
                    absl::Duration stream_interval)
      : model_(model), parser_(parser), scheduler_(scheduler), stream_interval_(stream_interval) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

 private:
  // Writes the events of `stream` to the client until the end of the answer.
  [[nodiscard]] static absl::Status WriteEvents(grpc::ServerContext& context,
                                                const v1::OutputOptions& wanted,
                                                RequestStream& stream,
                                                grpc::ServerWriter<v1::GenerateResponse>& writer);

  const ServedModel* const model_;
  const RequestParser* const parser_;
  Scheduler* const scheduler_;
  const absl::Duration stream_interval_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_GENERATION_SERVICE_H_
