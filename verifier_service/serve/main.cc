// bastion-verifier: the target model behind gRPC.

#include "absl/cleanup/cleanup.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/host/flags.h"
#include "common/host/service_host.h"
#include "common/host/stop_signals.h"
#include "common/inspection/inspection_service.h"
#include "common/telemetry/flags.h"
#include "engine/program/flags.h"
#include "verifier_service/serve/verifier_service.h"

ABSL_FLAG(std::string, target, "", "Hugging Face folder or GGUF file of the target model.");
ABSL_FLAG(std::vector<std::string>, listen, {bastion::wire::DefaultSocket("verifier")},
          "gRPC addresses, host:port or unix:///path, separated by commas.");
ABSL_FLAG(std::string, shared_memory, "",
          "Folder for the socket over which services on this host set up shared memory. It is "
          "created with mode 0700. Empty: off; all messages use gRPC.");
ABSL_FLAG(int64_t, gpu_feature_bytes, int64_t{64} << 20,
          "Bytes of GPU memory from which a drafter on the same GPU reads features. Requires "
          "--shared_memory. 0: features are copied through host memory.");
ABSL_FLAG(int, kv_tokens, 65536, "Capacity of the KV cache in tokens, for all sequences.");
ABSL_FLAG(int, max_sequences, 64, "Maximum number of open sequences.");
ABSL_FLAG(int, max_stream_sequences, 0,
          "Maximum number of open sequences of one stream, which is one orchestrator. Keeps an "
          "orchestrator from taking all sequences of a verifier that several share. 0: no limit.");
ABSL_FLAG(int, max_rows, 512,
          "Maximum number of rows (roots, tree nodes and prompt tokens) in one forward.");
ABSL_FLAG(int64_t, feature_bytes, int64_t{1} << 30,
          "Bytes of host memory for the features of all open sequences and cached prefixes.");
ABSL_FLAG(bool, reuse_prefixes, true,
          "Reuse the KV cache of prompts that begin like an earlier prompt with the same "
          "cache_salt.");
ABSL_FLAG(int, attention_sinks, 0,
          "The first tokens of a text, which every row attends to (StreamingLLM). Requires "
          "--attention_window.");
ABSL_FLAG(int, attention_window, 0,
          "The last tokens of a text that a row attends to, itself included, besides the sinks. "
          "0: all tokens.");
ABSL_FLAG(double, audit_fraction, 0,
          "Fraction (0 to 1) of verify cycles that are decoded again token by token and compared. "
          "0: off.");
ABSL_FLAG(double, audit_tolerance, 0,
          "If an audit finds another token, the difference counts as rounding if the scores of the "
          "two tokens (logits, or logit/temperature plus noise) differ by at most this.");

ABSL_FLAG(
    bool, audit_show_tokens, false,
    "If an audit finds a difference, log the tokens of the request, which a replay needs. They "
    "are text of the user.");

namespace bastion {
namespace {

// The process ends this long after SIGTERM, even if a call hangs.
constexpr absl::Duration kStopLimit = absl::Seconds(5);

absl::StatusOr<verifier::AuditOptions> ReadAuditOptions() {
  const verifier::AuditOptions audit = {absl::GetFlag(FLAGS_audit_fraction),
                                        absl::GetFlag(FLAGS_audit_tolerance),
                                        absl::GetFlag(FLAGS_audit_show_tokens)};
  if (audit.fraction >= 0 && audit.fraction <= 1) return audit;
  return absl::InvalidArgumentError(
      absl::StrCat("--audit_fraction is ", audit.fraction, "; it must be between 0 and 1"));
}

absl::Status Run(wire::StopSignals& signals) {
  verifier::VerifierOptions options;
  options.target_folder = absl::GetFlag(FLAGS_target);
  ASSIGN_OR_RETURN(const nn::LocalDevice local, nn::OpenLocalDevice(nn::DeviceFlags()));
  ASSIGN_OR_RETURN(options.engine.formats, nn::ParseFormats(nn::FormatFlags()));
  options.engine.device = local.device;
  if (!absl::GetFlag(FLAGS_shared_memory).empty()) {
    options.engine.share_bytes = absl::GetFlag(FLAGS_gpu_feature_bytes);
  }
  options.engine.show_progress = true;
  options.engine.kv_tokens = absl::GetFlag(FLAGS_kv_tokens);
  options.engine.streaming = {absl::GetFlag(FLAGS_attention_sinks),
                              absl::GetFlag(FLAGS_attention_window)};
  options.max_sequences = absl::GetFlag(FLAGS_max_sequences);
  options.max_rows = absl::GetFlag(FLAGS_max_rows);
  options.feature_bytes = absl::GetFlag(FLAGS_feature_bytes);
  options.reuse_prefixes = absl::GetFlag(FLAGS_reuse_prefixes);
  ASSIGN_OR_RETURN(options.audit, ReadAuditOptions());
  if (absl::GetFlag(FLAGS_max_stream_sequences) < 0) {
    return absl::InvalidArgumentError(absl::StrCat("--max_stream_sequences is ",
                                                   absl::GetFlag(FLAGS_max_stream_sequences),
                                                   "; it must be at least 0"));
  }
  ASSIGN_OR_RETURN(const auto engine, verifier::VerifierEngine::Create(options));
  LOG(INFO) << "target " << engine->info().model << " on " << engine->info().device << ": "
            << engine->info().peaks.bytes_per_second / 1e9 << " GB/s, "
            << engine->info().peaks.flops_per_second / 1e9 << " GFLOP/s";

  ASSIGN_OR_RETURN(const auto security, wire::SecurityFromFlags());
  ASSIGN_OR_RETURN(auto attach,
                   wire::StartAttachServer(absl::GetFlag(FLAGS_shared_memory), "verifier"));
  ASSIGN_OR_RETURN(const auto telemetry,
                   MakeTelemetry("verifier", engine->info().model, *security));
  verifier::VerifierTelemetry measured(telemetry.get());
  verifier::VerifierService service(engine.get(), std::move(attach), &measured, security,
                                    absl::GetFlag(FLAGS_max_stream_sequences));
  RETURN_IF_ERROR(telemetry->Serve([&] { measured.Refresh(service.state()); }));
  const auto stop_http = absl::MakeCleanup([&] { telemetry->Stop(); });
  InspectionService inspection("verifier", &telemetry->timeline(), security);
  ASSIGN_OR_RETURN(wire::HostOptions host_options,
                   wire::HostOptionsFromFlags(absl::GetFlag(FLAGS_listen), security));
  host_options.on_connection_refused = telemetry->RefusalCounter();
  host_options.is_alive = [&] { return service.is_alive(); };
  ASSIGN_OR_RETURN(const auto host,
                   wire::ServiceHost::Start(host_options, {&service, &inspection}));
  signals.Arm(kStopLimit);
  host->SetServing(true);
  LOG(INFO) << "serving on " << host_options.addresses[0];
  const std::string signal = signals.Wait();
  LOG(INFO) << signal << ": stopping";
  host->Shutdown(absl::Milliseconds(500));
  return absl::OkStatus();
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary = "Runs the target model: verifies draft trees and keeps the KV cache.",
      .usage = "--target DIR [flags]",
      .example = "--target deploy/demo_model/target --listen unix:///run/bastion/verifier.sock",
      .required = {"target"},
      .groups = {
          {"Model", {"target DIR", "weights FORMAT", "dtype TYPE"}},
          {"Connections", {"listen ADDRESSES", "shared_memory DIR"}},
          bastion::wire::SecurityFlagGroup(),
          {"Telemetry",
           {"http_listen ADDRESS", "http_hosts NAMES", "http_max_per_address N",
            "http_proxies NETWORKS", "http_idle_timeout DURATION", "trace_detail"}},
          {"Attention", {"attention_sinks TOKENS", "attention_window TOKENS"}},
          bastion::nn::DeviceFlagGroup(),
          {"Capacity",
           {"kv_tokens TOKENS", "max_sequences N", "max_stream_sequences N", "max_rows ROWS",
            "feature_bytes BYTES", "gpu_feature_bytes BYTES", "reuse_prefixes"}},
          {"Audit", {"audit_fraction FRACTION", "audit_tolerance LOGITS", "audit_show_tokens"}}}};
  bastion::wire::StopSignals signals;
  return bastion::RunProgram(argc, argv, info, [&](const auto&) { return bastion::Run(signals); });
}
