#include "orchestrator/serve/generation_service.h"

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/wire/protocol.h"
#include "orchestrator/serve/error_details.h"
#include "orchestrator/serve/generation_events.h"

namespace bastion {
namespace {

// How often a call checks whether the client has canceled it while there is nothing to write.
constexpr absl::Duration kPollInterval = absl::Milliseconds(50);

std::string NewRequestId() {
  absl::BitGen bits;
  return absl::StrCat("req-", absl::Hex(absl::Uniform<uint64_t>(bits), absl::kZeroPad16));
}

// Metadata that names the client, for fairness among clients.
constexpr char kClientKey[] = "client-id";
constexpr size_t kLongestClientId = 128;  // Bytes.

// The client's name; empty if the call has none.
absl::StatusOr<std::string> ClientOf(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kClientKey);
  if (found == metadata.end()) return std::string();
  if (found->second.size() > kLongestClientId) {
    return absl::InvalidArgumentError(absl::StrCat("metadata ", kClientKey, ": has ",
                                                   found->second.size(), " bytes; at most ",
                                                   kLongestClientId, " are allowed"));
  }
  // A string_ref is not NUL-terminated: use its length.
  return std::string(found->second.data(), found->second.size());
}

// The call's deadline on `clock`.
absl::Duration DeadlineOf(const grpc::ServerContext& context, const Clock& clock) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteDuration();
  return clock.Now() + (absl::FromChrono(deadline) - absl::Now());
}

// The error of a call that no longer accepts messages.
absl::Status EndOf(const grpc::ServerContext& context) {
  return absl::Now() < absl::FromChrono(context.deadline()) ? LiveRequest::CanceledError()
                                                            : LiveRequest::DeadlineError();
}

}  // namespace

grpc::Status GenerationService::Generate(grpc::ServerContext* context,
                                         const v1::GenerateRequest* request,
                                         grpc::ServerWriter<v1::GenerateResponse>* writer) {
  absl::StatusOr<PreparedRequest> prepared = parser_->Parse(*request);
  if (!prepared.ok()) return wire::ToGrpc(prepared.status());
  if (prepared->request_id.empty()) prepared->request_id = NewRequestId();
  absl::StatusOr<std::string> client = ClientOf(*context);
  if (!client.ok()) return wire::ToGrpc(client.status());
  prepared->client = *std::move(client);
  prepared->deadline = DeadlineOf(*context, Clock::Real());
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
  if (!submitted.ok()) return ToGrpcWithDetails(submitted);
  const auto cancel = absl::MakeCleanup([&] { scheduler_->Cancel(*stream); });
  if (!writer->Write(started)) return wire::ToGrpc(EndOf(*context));
  return wire::ToGrpc(WriteEvents(*context, request->output(), *stream, *writer));
}

absl::Status GenerationService::WriteEvents(grpc::ServerContext& context,
                                            const v1::OutputOptions& wanted, RequestStream& stream,
                                            grpc::ServerWriter<v1::GenerateResponse>& writer) {
  OutputDelta delta;
  for (;;) {
    if (context.IsCancelled()) return EndOf(context);
    switch (stream.WaitForEvent(kPollInterval, delta)) {
      case RequestStream::Event::kTimeout:
        break;
      case RequestStream::Event::kDelta:
        if (!writer.Write(DeltaEvent(delta, wanted))) return EndOf(context);
        if (delta.end && !writer.Write(FinishedEvent(delta.answer, *delta.end))) {
          return EndOf(context);
        }
        break;
      case RequestStream::Event::kEnd:
        return stream.status();
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
  response->set_parked_requests(stats.parked);
  response->set_preemptions(stats.preemptions);
  response->set_free_kv_tokens(stats.free_kv_tokens);
  return grpc::Status::OK;
}

}  // namespace bastion
