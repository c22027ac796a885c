#include "orchestrator/serve/generation_service.h"

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/wire/protocol.h"
#include "orchestrator/serve/generation_events.h"

namespace bastion {
namespace {

// How often a call checks whether the client has canceled it while there is nothing to write.
constexpr absl::Duration kPollInterval = absl::Milliseconds(50);

absl::Status ClientDisconnected() { return absl::CancelledError("the client disconnected"); }

std::string NewRequestId() {
  absl::BitGen bits;
  return absl::StrCat("req-", absl::Hex(absl::Uniform<uint64_t>(bits), absl::kZeroPad16));
}

}  // namespace

grpc::Status GenerationService::Generate(grpc::ServerContext* context,
                                         const v1::GenerateRequest* request,
                                         grpc::ServerWriter<v1::GenerateResponse>* writer) {
  absl::StatusOr<PreparedRequest> prepared = parser_->Parse(*request);
  if (!prepared.ok()) return wire::ToGrpc(prepared.status());
  if (prepared->request_id.empty()) prepared->request_id = NewRequestId();
  v1::GenerateResponse started;
  started.mutable_started()->set_request_id(prepared->request_id);
  started.mutable_started()->set_model(model_->name);
  started.mutable_started()->set_prompt_tokens(prepared->decode.prompt.size());

  auto live = std::make_unique<LiveRequest>(*std::move(prepared), &model_->tokenizer,
                                            &Clock::Real(), stream_interval_);
  const std::shared_ptr<RequestStream> stream = live->stream();
  // A client that does not read blocks Write below. The scheduler then aborts the call.
  stream->SetAbortCallback([context] { context->TryCancel(); });
  const absl::Status submitted = scheduler_->Submit(std::move(live));
  if (!submitted.ok()) return wire::ToGrpc(submitted);
  absl::Status status = ClientDisconnected();
  if (writer->Write(started)) status = WriteEvents(*context, request->output(), *stream, *writer);
  stream->Cancel();
  return wire::ToGrpc(status);
}

absl::Status GenerationService::WriteEvents(grpc::ServerContext& context,
                                            const v1::OutputOptions& wanted, RequestStream& stream,
                                            grpc::ServerWriter<v1::GenerateResponse>& writer) {
  OutputDelta delta;
  for (;;) {
    if (context.IsCancelled()) return ClientDisconnected();
    switch (stream.WaitForEvent(kPollInterval, delta)) {
      case RequestStream::Event::kTimeout:
        break;
      case RequestStream::Event::kDelta:
        if (!writer.Write(DeltaEvent(delta, wanted))) return ClientDisconnected();
        break;
      case RequestStream::Event::kEnd:
        RETURN_IF_ERROR(stream.status());
        writer.Write(FinishedEvent(stream.end()));
        return absl::OkStatus();
    }
  }
}

grpc::Status GenerationService::ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                                           v1::ListModelsResponse* response) {
  v1::Model& model = *response->add_models();
  model.set_name(model_->name);
  model.set_vocabulary(model_->config.dims.vocabulary);
  model.set_max_context(model_->config.max_positions);
  model.set_has_chat_template(model_->chat_template.has_value());
  model.set_drafter(scheduler_->stats().drafter);
  return grpc::Status::OK;
}

grpc::Status GenerationService::GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                                              v1::GetServerInfoResponse* response) {
  const SchedulerStats stats = scheduler_->stats();
  response->set_version(kVersion);
  response->set_device(stats.target.device);
  response->set_default_policy(parser_->default_policy().text());
  response->set_running_requests(stats.running);
  response->set_audited_tokens(stats.audit.tokens);
  response->set_audit_mismatches(stats.audit.mismatches);
  response->set_waiting_requests(stats.waiting);
  return grpc::Status::OK;
}

}  // namespace bastion
