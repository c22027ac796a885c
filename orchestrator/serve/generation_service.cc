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

// The call's metadata `key`; empty if it has none.
std::string Metadata(const grpc::ServerContext& context, const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  if (found == metadata.end()) return "";
  // A string_ref is not NUL-terminated: use its length.
  return std::string(found->second.data(), found->second.size());
}

// The client's name; empty if the call has none.
absl::StatusOr<std::string> ClientOf(const grpc::ServerContext& context) {
  std::string client = Metadata(context, kClientKey);
  if (client.size() <= kLongestClientId) return client;
  return absl::InvalidArgumentError(absl::StrCat("metadata ", kClientKey, ": has ", client.size(),
                                                 " bytes; at most ", kLongestClientId,
                                                 " are allowed"));
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

absl::StatusOr<PreparedRequest> GenerationService::Prepare(
    const grpc::ServerContext& context, const v1::GenerateRequest& request) const {
  ASSIGN_OR_RETURN(const std::string caller,
                   options_.security->Authorize(context, Right::kGenerate));
  ASSIGN_OR_RETURN(PreparedRequest prepared, parser_->Parse(request));
  if (prepared.request_id.empty()) prepared.request_id = NewRequestId();
  ASSIGN_OR_RETURN(prepared.client, ClientOf(context));
  // A caller that has proved its name neither takes the turns of others nor shares prefixes with
  // them.
  if (!caller.empty()) {
    prepared.client = absl::StrCat(caller, "/", prepared.client);
    prepared.decode.cache_salt = absl::StrCat(caller, "/", prepared.decode.cache_salt);
  }
  prepared.deadline = DeadlineOf(context, Clock::Real());
  return prepared;
}

grpc::Status GenerationService::Refuse(const absl::Status& status) {
  if (options_.observer != nullptr) options_.observer->OnRefusal(status);
  return ToGrpcWithDetails(status);
}

grpc::Status GenerationService::Generate(grpc::ServerContext* context,
                                         const v1::GenerateRequest* request,
                                         grpc::ServerWriter<v1::GenerateResponse>* writer) {
  CallTrace trace(options_.tracer, Metadata(*context, kTraceparentKey),
                  Metadata(*context, kTracestateKey));
  if (trace.context().valid()) {
    context->AddInitialMetadata(kTraceparentKey, FormatTraceparent(trace.context()));
  }
  if (!trace.trace_state().empty()) {
    context->AddInitialMetadata(kTracestateKey, trace.trace_state());
  }
  const grpc::Status status = Serve(context, *request, writer, &trace);
  trace.SetStatus(wire::FromGrpc(status));
  return status;
}

grpc::Status GenerationService::Serve(grpc::ServerContext* context,
                                      const v1::GenerateRequest& request,
                                      grpc::ServerWriter<v1::GenerateResponse>* writer,
                                      CallTrace* trace) {
  absl::StatusOr<PreparedRequest> prepared = Prepare(*context, request);
  if (!prepared.ok()) return Refuse(prepared.status());
  trace->SetRequest(*prepared, model_->name);
  prepared->trace = trace->context();
  v1::GenerateResponse started;
  started.mutable_started()->set_request_id(prepared->request_id);
  started.mutable_started()->set_model(model_->name);
  started.mutable_started()->set_prompt_tokens(prepared->decode.prompt.size());

  auto live =
      std::make_unique<LiveRequest>(*std::move(prepared), &model_->tokenizer, &Clock::Real(),
                                    options_.stream_interval, options_.observer);
  const std::shared_ptr<RequestStream> stream = live->stream();
  // A client that does not read blocks Write below. The scheduler then aborts the call.
  stream->SetAbortCallback([context] { context->TryCancel(); });
  const absl::Status submitted = scheduler_->Submit(std::move(live));
  if (!submitted.ok()) return Refuse(submitted);
  const auto cancel = absl::MakeCleanup([&] { scheduler_->Cancel(*stream); });
  if (!writer->Write(started)) return wire::ToGrpc(EndOf(*context));
  return wire::ToGrpc(
      WriteEvents({model_->tokenizer, *context, request.output(), *stream, *writer, *trace}));
}

absl::Status GenerationService::WriteEvents(const Output& output) {
  OutputDelta delta;
  for (;;) {
    if (output.context.IsCancelled()) return EndOf(output.context);
    switch (output.stream.WaitForEvent(kPollInterval, delta)) {
      case RequestStream::Event::kTimeout:
        break;
      case RequestStream::Event::kDelta: {
        const absl::Duration began = Clock::Real().Now();
        if (!output.writer.Write(DeltaEvent(delta, output.wanted, output.tokenizer))) {
          return EndOf(output.context);
        }
        if (delta.end &&
            !output.writer.Write(FinishedEvent(delta.answer, *delta.end, output.wanted))) {
          return EndOf(output.context);
        }
        output.trace.AddSend(began, delta);
        break;
      }
      case RequestStream::Event::kEnd:
        return output.stream.status();
    }
  }
}

grpc::Status GenerationService::ListModels(grpc::ServerContext* context,
                                           const v1::ListModelsRequest*,
                                           v1::ListModelsResponse* response) {
  if (const auto caller = options_.security->Authorize(*context, Right::kGenerate); !caller.ok()) {
    return wire::ToGrpc(caller.status());
  }
  v1::Model& model = *response->add_models();
  model.set_name(model_->name);
  model.set_vocabulary(model_->config.dims.vocabulary);
  model.set_max_context(model_->config.max_positions);
  model.set_has_chat_template(model_->chat_template.has_value());
  model.set_drafter(scheduler_->stats().drafter);
  return grpc::Status::OK;
}

grpc::Status GenerationService::GetServerInfo(grpc::ServerContext* context,
                                              const v1::GetServerInfoRequest*,
                                              v1::GetServerInfoResponse* response) {
  if (const auto caller = options_.security->Authorize(*context, Right::kGenerate); !caller.ok()) {
    return wire::ToGrpc(caller.status());
  }
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
