// bastion-drafter: the draft model behind gRPC.

#include "absl/cleanup/cleanup.h"
#include "absl/flags/flag.h"
#include "common/base/check.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/host/flags.h"
#include "common/host/service_host.h"
#include "common/host/stop_signals.h"
#include "common/inspection/inspection_service.h"
#include "common/telemetry/flags.h"
#include "common/telemetry/transport_metrics.h"
#include "common/wire/private_folder.h"
#include "drafter_service/features/remote_features.h"
#include "drafter_service/replay/acceptance_profile.h"
#include "drafter_service/replay/known_texts.h"
#include "drafter_service/replay/replayed_engine.h"
#include "drafter_service/serve/drafter_service.h"
#include "engine/program/flags.h"

ABSL_FLAG(
    std::string, drafter, "",
    "Hugging Face folder of the drafter: a DFlash drafter, or a small model with the target's "
    "tokenizer (an autoregressive drafter).");
ABSL_FLAG(std::string, target, "",
          "Folder or GGUF file of the drafter's target. A DFlash drafter uses its embedding and LM "
          "head.");
ABSL_FLAG(std::string, verifier, bastion::wire::DefaultSocket("verifier"),
          "gRPC address of the verifier, which sends the features.");
ABSL_FLAG(std::vector<std::string>, listen, {bastion::wire::DefaultSocket("drafter")},
          "gRPC addresses, host:port or unix:///path, separated by commas.");
ABSL_FLAG(std::string, shared_memory, "",
          "Folder of the socket over which an orchestrator on this host sets up shared memory. The "
          "folder is created with mode 0700. Empty: off; the orchestrator uses gRPC.");
ABSL_FLAG(std::string, carrier, "auto",
          "Transport for features: auto (shared memory if the verifier offers it and its address "
          "is unix:///path, else gRPC) or inline (gRPC).");
ABSL_FLAG(absl::Duration, peer_timeout, absl::Seconds(1),
          "The stream of features is opened again if nothing arrives for this long although the "
          "orchestrator asks for drafts that need features.");
ABSL_FLAG(int, kv_tokens, 65536, "Capacity of the context cache in tokens, for all sequences.");
ABSL_FLAG(int, max_sequences, 64, "Maximum number of open sequences.");
ABSL_FLAG(
    bool, reuse_prefixes, true,
    "Reuse the context of prompts that begin like an earlier prompt with the same cache_salt. "
    "The orchestrator then also sends token ids.");
ABSL_FLAG(int, draft_vocabulary, 0,
          "Draft only this many tokens, the most frequent ones, with a smaller LM head. Needs the "
          "drafter's transition table (bastion-train prior). 0: all tokens.");
ABSL_FLAG(
    std::string, replayed_profile, "",
    "Draft with the acceptance of this profile, to measure its speed with the forwards of the "
    "drafter (docs/experiments.md). Needs --replayed_texts. Empty: the drafter's own drafts.");
ABSL_FLAG(std::string, replayed_texts, "",
          "Texts that the target generates: a file of bastion-bench --texts. With "
          "--replayed_profile.");

namespace bastion {
namespace {

// The process ends this long after SIGTERM, even if a call hangs.
constexpr absl::Duration kStopLimit = absl::Seconds(5);

// `local` must outlive the engine.
absl::StatusOr<drafter::DrafterOptions> ReadOptions(const nn::LocalDevice& local) {
  drafter::DrafterOptions options;
  options.drafter_folder = absl::GetFlag(FLAGS_drafter);
  options.target_folder = absl::GetFlag(FLAGS_target);
  options.engine.device = local.device;
  ASSIGN_OR_RETURN(options.engine.formats,
                   nn::ParseDraftFormats(nn::FormatFlags(), !local.device->on_host()));
  options.engine.show_progress = true;
  options.engine.kv_tokens = absl::GetFlag(FLAGS_kv_tokens);
  options.max_sequences = absl::GetFlag(FLAGS_max_sequences);
  options.reuse_prefixes = absl::GetFlag(FLAGS_reuse_prefixes);
  options.defer_catch_up = true;
  options.draft_vocabulary = absl::GetFlag(FLAGS_draft_vocabulary);
  return options;
}

// Lets `engine` replay acceptance if the flags say so. `texts` must outlive it.
absl::Status WrapEngine(drafter::KnownTexts& texts,
                        std::unique_ptr<drafter::DrafterEngine>& engine) {
  const std::string profile = absl::GetFlag(FLAGS_replayed_profile);
  const std::string file = absl::GetFlag(FLAGS_replayed_texts);
  if (profile.empty() != file.empty()) {
    return absl::InvalidArgumentError(
        "--replayed_profile and --replayed_texts need each other; set both or none");
  }
  if (profile.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(texts, drafter::KnownTexts::Read(file));
  ASSIGN_OR_RETURN(drafter::AcceptanceProfile replayed, drafter::AcceptanceProfile::Read(profile));
  LOG(WARNING) << "the drafts are not the drafter's: they have the acceptance of " << profile;
  engine =
      std::make_unique<drafter::ReplayedEngine>(std::move(engine), std::move(replayed), &texts);
  return absl::OkStatus();
}

absl::Status Run(wire::StopSignals& signals) {
  ASSIGN_OR_RETURN(const nn::LocalDevice local, nn::OpenLocalDevice(nn::DeviceFlags()));
  ASSIGN_OR_RETURN(const drafter::DrafterOptions options, ReadOptions(local));
  ASSIGN_OR_RETURN(const auto security, wire::SecurityFromFlags());
  ASSIGN_OR_RETURN(const auto carrier, wire::ParseCarrierChoice(absl::GetFlag(FLAGS_carrier)));
  const std::string verifier = absl::GetFlag(FLAGS_verifier);
  RETURN_IF_ERROR(wire::CheckPeerFolder(verifier));
  RETURN_IF_ERROR(security->CheckPeer(verifier));
  const absl::Duration peer_timeout = absl::GetFlag(FLAGS_peer_timeout);
  RETURN_IF_ERROR(wire::CheckPeerTimeout(peer_timeout));
  drafter::RemoteFeatures features(verifier, carrier, security, peer_timeout);
  drafter::KnownTexts replayed_texts;
  ASSIGN_OR_RETURN(auto engine, drafter::DrafterEngine::Create(options, &features));
  RETURN_IF_ERROR(WrapEngine(replayed_texts, engine));
  LOG(INFO) << "drafter " << engine->info().model << ": " << engine->info().positions
            << " positions per draft, weights in " << nn::Describe(options.engine.formats);

  ASSIGN_OR_RETURN(auto attach,
                   wire::StartAttachServer(absl::GetFlag(FLAGS_shared_memory), "drafter"));
  ASSIGN_OR_RETURN(const auto telemetry, MakeTelemetry("drafter", engine->info().model, *security));
  drafter::DrafterTelemetry measured(telemetry.get());
  drafter::DrafterService service(
      engine.get(), [&](SequenceId sequence) { features.Forget(sequence); }, std::move(attach),
      &measured, security);
  service.ReportRoute([&] { return features.route(); });
  TransportMetrics transport(telemetry->metrics(), "verifier", &features.transport());
  RETURN_IF_ERROR(telemetry->Serve([&] {
    measured.Refresh(service.live_sequences());
    transport.Refresh();
  }));
  const auto stop_http = absl::MakeCleanup([&] { telemetry->Stop(); });
  InspectionService inspection("drafter", &telemetry->timeline(), security);
  ASSIGN_OR_RETURN(wire::HostOptions host_options,
                   wire::HostOptionsFromFlags(absl::GetFlag(FLAGS_listen), security));
  host_options.on_connection_refused = telemetry->RefusalCounter();
  host_options.is_alive = [&] { return service.is_alive(); };
  ASSIGN_OR_RETURN(const auto host,
                   wire::ServiceHost::Start(host_options, {&service, &inspection}));
  features.Start(
      engine->feature_layers(),
      [&](SequenceId sequence, Position committed, TokenId root) {
        service.FeaturesArrived(sequence, committed, root);
      },
      engine->device_reader());
  signals.Arm(kStopLimit);
  host->SetServing(true);
  LOG(INFO) << "serving on " << host_options.addresses[0];
  const std::string signal = signals.Wait();
  LOG(INFO) << signal << ": stopping";
  host->Shutdown(absl::Milliseconds(500));
  features.Stop();
  return absl::OkStatus();
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary = "Runs the draft model: predicts the distributions of the next tokens.",
      .usage = "--drafter DIR --target DIR [flags]",
      .example =
          "--drafter deploy/demo_model/drafter --target deploy/demo_model/target "
          "--verifier unix:///run/bastion/verifier.sock --listen unix:///run/bastion/drafter.sock",
      .required = {"drafter", "target"},
      .groups = {{"Model",
                  {"drafter DIR", "target DIR", "weights FORMAT", "dtype TYPE",
                   "draft_vocabulary N", "replayed_profile FILE", "replayed_texts FILE"}},
                 {"Connections",
                  {"verifier ADDRESS", "listen ADDRESSES", "shared_memory DIR", "carrier CARRIER",
                   "peer_timeout DURATION"}},
                 bastion::wire::SecurityFlagGroup(),
                 {"Telemetry",
                  {"http_listen ADDRESS", "http_hosts NAMES", "http_max_per_address N",
                   "http_proxies NETWORKS", "http_idle_timeout DURATION", "trace_detail"}},
                 bastion::nn::DeviceFlagGroup(),
                 {"Capacity", {"kv_tokens TOKENS", "max_sequences N", "reuse_prefixes"}}}};
  bastion::wire::StopSignals signals;
  return bastion::RunProgram(argc, argv, info, [&](const auto&) { return bastion::Run(signals); });
}
