#include "orchestrator/api/generation_service.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/peer_host.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "orchestrator/api/generation_events.h"
#include "orchestrator/api/public_status.h"
#include "orchestrator/intake/request_id.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {
namespace {

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
  return FieldError(
      absl::StrCat("metadata ", kClientKey),
      absl::StrCat("has ", client.size(), " bytes; at most ", kLongestClientId, " are allowed"));
}

// The time until the call's deadline. It is computed on the steady clock: absl::Now() follows a
// jump of the wall clock only after seconds, so that the deadlines of new calls would seem to have
// passed.
absl::Duration TimeLeft(const grpc::ServerContext& context) {
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) {
    return absl::InfiniteDuration();
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

// The error of a call that no longer accepts messages.
absl::Status EndOf(const grpc::ServerContext& context) {
  return TimeLeft(context) > absl::ZeroDuration() ? LiveRequest::CanceledError()
                                                  : LiveRequest::DeadlineError();
}

}  // namespace

absl::StatusOr<std::string> GenerationService::Authorize(const grpc::ServerContext& context) const {
  auto name = options_.security->Authorize(context, Right::kGenerate);
  if (!name.ok()) return ForClient(name.status());
  return name;
}

absl::StatusOr<RequestIntake::Entered> GenerationService::Enter(const Call& call) {
  RequestIntake::Caller caller;
  ASSIGN_OR_RETURN(caller.name, Authorize(call.context));
  ASSIGN_OR_RETURN(caller.client, ClientOf(call.context));
  caller.host = HostOfPeer(call.context.peer());
  caller.deadline = Clock::Real().Now() + TimeLeft(call.context);
  caller.is_canceled = [&] { return call.context.IsCancelled(); };
  return intake_->Enter(call.request, caller);
}

absl::Status GenerationService::Refuse(const absl::Status& status) {
  TellObserver(calls_.observer, [&](ServingObserver& observer) { observer.OnRefusal(status); });
  return status;
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
  const Call call = {*context, *request, RequestIdOrNew(request->request_id()), *writer, trace};
  const absl::Status status = PublicStatusOf([&] { return Serve(call); }, call.request_id);
  trace.SetStatus(status);
  return ToGrpcWithDetails(status);
}

absl::Status GenerationService::Serve(const Call& call) {
  absl::StatusOr<RequestIntake::Entered> entered = Enter(call);
  if (!entered.ok()) return Refuse(entered.status());
  PreparedRequest& prepared = entered->requests.front();
  prepared.request_id = call.request_id;
  call.trace.SetRequests(entered->requests, model_->name);
  prepared.trace = call.trace.context();
  v1::GenerateResponse started;
  started.mutable_started()->set_request_id(prepared.request_id);
  started.mutable_started()->set_model(model_->name);
  started.mutable_started()->set_prompt_tokens(prepared.decode.prompt.size());

  // A client that does not read blocks Write below. The scheduler then aborts the call.
  absl::StatusOr<SubmittedCall> submitted = SubmittedCall::Submit(
      calls_, std::move(entered->requests), [&call] { call.context.TryCancel(); });
  if (!submitted.ok()) return Refuse(submitted.status());
  if (!call.writer.Write(started)) return EndOf(call.context);
  return WriteEvents(call, *submitted);
}

absl::Status GenerationService::WriteEvents(const Call& call, SubmittedCall& submitted) {
  OutputDelta delta;
  std::optional<wire::CallWatchdog::Watch> rest;  // Watches the output after the end.
  while (submitted.Next([&] { return call.context.IsCancelled(); }, delta)) {
    if (const auto ended = submitted.ended(); ended && !rest && options_.watchdog != nullptr) {
      rest.emplace(options_.watchdog->Expect(&call.context, *ended + options_.slow_client));
    }
    const absl::Duration began = Clock::Real().Now();
    const v1::OutputOptions& wanted = call.request.output();
    if (!call.writer.Write(DeltaEvent(delta, wanted, model_->tokenizer))) {
      return EndOf(call.context);
    }
    if (delta.end && !call.writer.Write(FinishedEvent(delta.answer, *delta.end, wanted))) {
      return EndOf(call.context);
    }
    call.trace.AddSend(began, delta);
  }
  return absl::IsCancelled(submitted.status()) ? EndOf(call.context) : submitted.status();
}

grpc::Status GenerationService::ListModels(grpc::ServerContext* context,
                                           const v1::ListModelsRequest*,
                                           v1::ListModelsResponse* response) {
  const auto serve = [&]() -> absl::Status {
    RETURN_IF_ERROR(Authorize(*context).status());
    v1::Model& model = *response->add_models();
    model.set_name(model_->name);
    model.set_vocabulary(model_->config.dims.vocabulary);
    model.set_max_context(model_->config.max_positions);
    model.set_has_chat_template(model_->chat_template.has_value());
    const SchedulerStats stats = calls_.scheduler->stats();
    model.set_drafter(stats.drafter);
    model.set_drafter_features(Describe(stats.feature_route));
    return absl::OkStatus();
  };
  return ToGrpcWithDetails(PublicStatusOf(serve, RequestIdOrNew("")));
}

grpc::Status GenerationService::GetServerInfo(grpc::ServerContext* context,
                                              const v1::GetServerInfoRequest*,
                                              v1::GetServerInfoResponse* response) {
  const auto serve = [&]() -> absl::Status {
    RETURN_IF_ERROR(Authorize(*context).status());
    const SchedulerStats stats = calls_.scheduler->stats();
    response->set_version(kVersion);
    response->set_device(stats.target.device);
    response->set_default_policy(intake_->parser().default_policy().text());
    response->set_running_requests(stats.running);
    response->set_audited_tokens(stats.audit.tokens);
    response->set_audit_mismatches(stats.audit.mismatches);
    response->set_waiting_requests(stats.waiting);
    response->set_parked_requests(stats.parked);
    response->set_preemptions(stats.preemptions);
    response->set_free_kv_tokens(stats.free_kv_tokens);
    return absl::OkStatus();
  };
  return ToGrpcWithDetails(PublicStatusOf(serve, RequestIdOrNew("")));
}

}  // namespace bastion
