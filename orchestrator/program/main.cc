// bastion-orchestrator: accepts requests, grows draft trees and streams the answers.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/data_file.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/host/flags.h"
#include "common/host/service_host.h"
#include "common/host/stop_signals.h"
#include "common/prior/transition_file.h"
#include "common/telemetry/flags.h"
#include "common/telemetry/transport_metrics.h"
#include "common/wire/private_folder.h"
#include "orchestrator/api/generation_service.h"
#include "orchestrator/api/orchestrator_inspection.h"
#include "orchestrator/console/console.h"
#include "orchestrator/cycle/guarded_drafter.h"
#include "orchestrator/openai/openai_api.h"
#include "orchestrator/policy/acceptance_file.h"
#include "orchestrator/program/serving_telemetry.h"
#include "orchestrator/remote/remote_drafter.h"
#include "orchestrator/remote/remote_verifier.h"
#include "orchestrator/schedule/readiness.h"

ABSL_FLAG(std::string, target, "",
          "Folder or GGUF file of the target model, for its tokenizer, configuration and chat "
          "template.");
ABSL_FLAG(std::string, model_name, "",
          "Name under which clients ask for the model. Empty: the name of its folder.");
ABSL_FLAG(std::string, verifier, bastion::wire::DefaultSocket("verifier"),
          "gRPC address of the verifier.");
ABSL_FLAG(std::string, drafter, bastion::wire::DefaultSocket("drafter"),
          "gRPC address of the drafter. While it is unreachable, requests are decoded without "
          "drafts.");
ABSL_FLAG(std::string, carrier, "auto",
          "Transport to the verifier and the drafter: auto (shared memory if the peer offers it) "
          "or inline (gRPC).");
ABSL_FLAG(std::vector<std::string>, listen, {"127.0.0.1:7070"},
          "gRPC addresses for clients, host:port or unix:///path, separated by commas.");
ABSL_FLAG(std::string, policy, "default",
          "Speculation policy for requests that do not set one, e.g. default, adaptive, fixed:16 "
          "or ar.");
ABSL_FLAG(std::string, prior, "",
          "Transition table for policies with +prior: a file, or the drafter's folder. Empty: only "
          "the request's own tokens are used.");
ABSL_FLAG(std::string, learn_prior, "",
          "File for transitions learned from all requests. It contains fragments of their text, "
          "and tenants can infer each other's text from response times. Empty: off.");
ABSL_FLAG(std::string, acceptance_calibration, "",
          "File that preserves the calibration of acceptance across restarts. It is created if it "
          "does not exist. It contains no text. Empty: each start learns it again.");
ABSL_FLAG(
    std::optional<int>, max_tree_nodes, std::nullopt,
    "Maximum number of nodes of the trees that requests name, e.g. fixed:512. Larger trees slow "
    "down all requests. Trees of default and adaptive are bounded by what they cost. Empty: 64 if "
    "the target runs on a CPU, and the verifier's --max_rows on a GPU.");
ABSL_FLAG(std::vector<std::string>, allowed_policies, {},
          "Policies that requests may ask for, by their base names, e.g. ar,default,fixed. The "
          "policy of --policy is always allowed. Empty: all.");
ABSL_FLAG(
    std::string, tool_format, "auto",
    "How the model writes calls of tools: hermes, llama or mistral. auto: as its chat template "
    "shows.");
ABSL_FLAG(int, max_prompt_bytes, 0,
          "Maximum number of bytes of a prompt's text. 0: the longest text that may fit into the "
          "context, at least 64 KiB and at most 1 MiB.");
ABSL_FLAG(bool, refuse_special_tokens, false,
          "Refuse texts and messages that contain special tokens, e.g. <|im_start|>. With them, a "
          "client can end its message and begin one of another role.");
ABSL_FLAG(int, max_client_calls, 0,
          "Maximum number of calls of one client at a time. A client is the name that a caller has "
          "proved, or else the metadata client-id. 0: no limit.");
ABSL_FLAG(int, max_streams, 128,
          "Maximum number of calls of one connection at a time. Further calls wait.");
ABSL_FLAG(absl::Duration, max_connection_idle, absl::Minutes(5),
          "How long a connection without calls stays open.");
ABSL_FLAG(absl::Duration, max_connection_age, absl::Hours(1),
          "How long a connection takes new calls. Its running calls may go on for a day.");
ABSL_FLAG(int, max_running, 16, "Maximum number of requests decoded together.");
ABSL_FLAG(int, max_waiting, 256,
          "Maximum number of requests in the queue. Further requests are refused.");
ABSL_FLAG(int, prefill_rows, 256,
          "Maximum number of prompt tokens in one forward, all requests together. A higher value "
          "shortens the wait for the first token. A lower value shortens the pauses of requests "
          "that decode meanwhile.");
ABSL_FLAG(
    absl::Duration, draft_timeout, absl::Milliseconds(500),
    "Maximum time to wait for a draft. The cycle then continues without a draft, and sooner if "
    "recent drafts took much less time.");
ABSL_FLAG(absl::Duration, profile_limit, absl::Seconds(10),
          "Approximate time limit for the profile at startup. Points that are not measured by "
          "then are interpolated. 0: no limit; every point is measured once.");
ABSL_FLAG(std::string, latency_profile, "",
          "File of measured verify times. If it exists, nothing is measured at startup, else it is "
          "written. It belongs to one target and one device; with another verifier, the "
          "orchestrator does not become ready. Empty: measure at every startup.");
ABSL_FLAG(absl::Duration, stream_interval, absl::Milliseconds(10),
          "Minimum time between two messages of an answer after its first token. Tokens decoded "
          "meanwhile are sent together. 0: one message per cycle.");
ABSL_FLAG(
    absl::Duration, slow_client, absl::Seconds(30),
    "How long a client may let its full stream wait, in total, before its request is dropped. Also "
    "how long it may take to read one message, or what is left after the answer has ended.");
ABSL_FLAG(absl::Duration, park_after, absl::Seconds(1),
          "How long a client may let its full stream wait before its request gives up its slot and "
          "memory. The request continues when the client reads again.");
ABSL_FLAG(absl::Duration, peer_timeout, absl::Seconds(1),
          "The verifier or the drafter is lost if it does not answer for this long, or if its "
          "engine is idle for this long while a call waits for its reply.");
ABSL_FLAG(
    absl::Duration, verifier_patience, absl::Seconds(30),
    "How long accepted requests wait for a lost verifier. If one with the same model returns, "
    "they continue with the same text. After this time, they fail.");
ABSL_FLAG(
    bool, show_text, false,
    "Show the tokens of all requests' draft trees in the console (/console of --http_listen). "
    "They are text of prompts and answers. Default: trees without text.");
ABSL_FLAG(std::vector<std::string>, http_origins, {},
          "Origins of other sites whose pages may use the OpenAI-compatible API, e.g. "
          "https://app.example.com, separated by commas; * allows all. Empty: none.");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(30),
          "How long running requests may continue after SIGTERM.");

namespace bastion {
namespace {

// How long connections stay open after the last answer. A client that sends something on a closed
// connection loses what it has not read yet.
constexpr absl::Duration kLinger = absl::Milliseconds(500);
// The process ends this long after --grace, even if a call or the disk hangs.
constexpr absl::Duration kStopLimit = absl::Seconds(5);
// Limits gRPC's memory for the connections of clients.
constexpr size_t kBufferBytes = size_t{512} << 20;

// What requests share, as far as flags name files of it.
struct SharedFiles {
  std::unique_ptr<const TransitionGains> table;
  std::optional<LearnedPrior> learned;
  std::optional<AcceptanceFile> acceptance;
};

// INVALID_ARGUMENT if a flag that names a file to write names something else.
absl::Status CheckWrittenFiles() {
  for (const absl::Flag<std::string>* flag :
       {&FLAGS_learn_prior, &FLAGS_acceptance_calibration, &FLAGS_latency_profile}) {
    RETURN_IF_ERROR(
        Annotate(CheckDataFile(absl::GetFlag(*flag)), absl::StrCat("--", flag->Name())));
  }
  return absl::OkStatus();
}

absl::StatusOr<SharedFiles> OpenSharedFiles(int vocabulary) {
  SharedFiles files;
  if (const std::string path = absl::GetFlag(FLAGS_prior); !path.empty()) {
    ASSIGN_OR_RETURN(const auto table, hub::RequireTransitionTable(path, vocabulary));
    files.table = std::make_unique<const TransitionGains>(*table);
  }
  if (const std::string path = absl::GetFlag(FLAGS_learn_prior); !path.empty()) {
    ASSIGN_OR_RETURN(files.learned, LearnedPrior::Open(path, vocabulary));
  }
  if (const std::string path = absl::GetFlag(FLAGS_acceptance_calibration); !path.empty()) {
    ASSIGN_OR_RETURN(files.acceptance, AcceptanceFile::Open(path, vocabulary));
  }
  return files;
}

// `files` must outlive the link.
void SetLinkOptions(SharedFiles& files, const ModelDims& dims, VerifierLinkOptions* link) {
  link->dims = dims;
  link->table = files.table.get();
  link->learned = files.learned.has_value() ? &*files.learned : nullptr;
  link->acceptance = files.acceptance.has_value() ? &*files.acceptance : nullptr;
}

absl::StatusOr<std::unique_ptr<ServedModel>> LoadModel() {
  ASSIGN_OR_RETURN(auto model, ServedModel::Load(absl::GetFlag(FLAGS_target)));
  if (const std::string name = absl::GetFlag(FLAGS_model_name); !name.empty()) model->name = name;
  return model;
}

// INVALID_ARGUMENT if a flag's value is below `least`.
absl::Status CheckAtLeast(absl::string_view flag, int value, int least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is ", value, "; it must be at least ", least));
}
absl::Status CheckAtLeast(const absl::Flag<int>& flag, int least) {
  return CheckAtLeast(flag.Name(), absl::GetFlag(flag), least);
}

absl::StatusOr<RequestParser> MakeParser(const ServedModel* model) {
  ASSIGN_OR_RETURN(Policy policy, Policy::Parse(absl::GetFlag(FLAGS_policy)));
  RETURN_IF_ERROR(CheckAtLeast(FLAGS_max_prompt_bytes, 0));
  ParserOptions options;
  if (const std::optional<int> cap = absl::GetFlag(FLAGS_max_tree_nodes); cap.has_value()) {
    RETURN_IF_ERROR(CheckAtLeast(FLAGS_max_tree_nodes.Name(), *cap, 0));
    options.node_cap = {.on_cpu = *cap, .on_gpu = *cap};
  }
  options.refuse_special_tokens = absl::GetFlag(FLAGS_refuse_special_tokens);
  options.max_prompt_bytes = static_cast<size_t>(absl::GetFlag(FLAGS_max_prompt_bytes));
  options.allowed_policies = absl::GetFlag(FLAGS_allowed_policies);
  const std::vector<std::string> known = PolicyBaseNames();
  for (const std::string& name : options.allowed_policies) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--allowed_policies: \"", name, "\" is not a base name; use ", absl::StrJoin(known, ", ")));
  }
  return RequestParser(model, std::move(policy), options);
}

absl::StatusOr<SchedulerOptions> ReadSchedulerOptions() {
  RETURN_IF_ERROR(CheckAtLeast(FLAGS_max_running, 1));
  RETURN_IF_ERROR(CheckAtLeast(FLAGS_max_waiting, 1));
  RETURN_IF_ERROR(CheckAtLeast(FLAGS_prefill_rows, 1));
  RETURN_IF_ERROR(wire::CheckPeerTimeout(absl::GetFlag(FLAGS_peer_timeout)));
  SchedulerOptions options;
  options.max_running = absl::GetFlag(FLAGS_max_running);
  options.max_waiting = absl::GetFlag(FLAGS_max_waiting);
  options.prefill_rows = absl::GetFlag(FLAGS_prefill_rows);
  options.park_after = absl::GetFlag(FLAGS_park_after);
  options.slow_client = absl::GetFlag(FLAGS_slow_client);
  options.verifier_patience = absl::GetFlag(FLAGS_verifier_patience);
  options.link.profile_limit = absl::GetFlag(FLAGS_profile_limit);
  options.link.latency_profile = absl::GetFlag(FLAGS_latency_profile);
  return options;
}

absl::StatusOr<wire::HostOptions> ReadHostOptions(const SchedulerOptions& scheduler,
                                                  const RequestParser& parser,
                                                  std::shared_ptr<const wire::Security> security,
                                                  wire::CallWatchdog* watchdog) {
  RETURN_IF_ERROR(CheckAtLeast(FLAGS_max_client_calls, 0));
  RETURN_IF_ERROR(CheckAtLeast(FLAGS_max_streams, 1));
  ASSIGN_OR_RETURN(wire::HostOptions options,
                   wire::HostOptionsFromFlags(absl::GetFlag(FLAGS_listen), std::move(security)));
  options.max_request_bytes = static_cast<int>(parser.max_request_bytes());
  // As many requests may be parked as may wait.
  options.max_threads = scheduler.max_running + 2 * scheduler.max_waiting + 16;
  options.watchdog = watchdog;
  options.write_patience = scheduler.slow_client;
  wire::SetKeepaliveWithin(scheduler.slow_client, options.connections);
  options.connections.max_streams = absl::GetFlag(FLAGS_max_streams);
  options.connections.max_idle = absl::GetFlag(FLAGS_max_connection_idle);
  options.connections.max_age = absl::GetFlag(FLAGS_max_connection_age);
  options.connections.max_buffer_bytes = kBufferBytes;
  return options;
}

struct PeerOptions {
  RemoteOptions verifier, drafter;
};

absl::StatusOr<PeerOptions> ReadPeerOptions(const std::shared_ptr<const wire::Security>& security) {
  PeerOptions options;
  ASSIGN_OR_RETURN(options.verifier.carrier,
                   wire::ParseCarrierChoice(absl::GetFlag(FLAGS_carrier)));
  options.verifier.peer_timeout = absl::GetFlag(FLAGS_peer_timeout);
  options.verifier.security = security;
  options.drafter = options.verifier;
  options.verifier.address = absl::GetFlag(FLAGS_verifier);
  options.drafter.address = absl::GetFlag(FLAGS_drafter);
  for (const std::string& address : {options.verifier.address, options.drafter.address}) {
    RETURN_IF_ERROR(wire::CheckPeerFolder(address));
    RETURN_IF_ERROR(security->CheckPeer(address));
  }
  options.drafter.call_timeout = absl::GetFlag(FLAGS_draft_timeout);
  return options;
}

// Nullopt: the chat template shows it.
absl::StatusOr<std::optional<ToolFormat>> ReadToolFormat() {
  const std::string name = absl::GetFlag(FLAGS_tool_format);
  if (name == "auto") return std::nullopt;
  ASSIGN_OR_RETURN(const ToolFormat format, ParseToolFormat(name));
  return std::optional<ToolFormat>(format);
}

// How often the watchdog looks for slow clients.
absl::Duration WatchInterval(absl::Duration slow_client) {
  return std::clamp(slow_client / 16, absl::Milliseconds(1), absl::Seconds(1));
}

std::vector<HttpRoute> HttpRoutes(Console& console, OpenAiApi& openai) {
  std::vector<HttpRoute> routes = openai.Routes();
  for (HttpRoute& route : console.Routes()) routes.push_back(std::move(route));
  return routes;
}

void ServeUntilSignal(wire::StopSignals& signals, Readiness& readiness, wire::ServiceHost& host,
                      Scheduler& scheduler, RemoteVerifier& verifier) {
  const std::string signal = signals.Wait();
  LOG(INFO) << signal << ": draining";
  readiness.Drain();
  const SchedulerStats at_signal = scheduler.stats();
  scheduler.Drain(absl::GetFlag(FLAGS_grace));
  if (at_signal.running + at_signal.waiting + at_signal.parked > 0) absl::SleepFor(kLinger);
  scheduler.Interrupt();
  verifier.Stop();
  host.Shutdown(absl::Seconds(1));
}

absl::Status Run(wire::StopSignals& signals) {
  ASSIGN_OR_RETURN(SchedulerOptions options, ReadSchedulerOptions());
  RETURN_IF_ERROR(CheckWrittenFiles());
  ASSIGN_OR_RETURN(const auto model, LoadModel());
  ASSIGN_OR_RETURN(const RequestParser parser, MakeParser(model.get()));
  ASSIGN_OR_RETURN(const auto security, wire::SecurityFromFlags());
  wire::CallWatchdog watchdog(WatchInterval(options.slow_client));
  ASSIGN_OR_RETURN(wire::HostOptions host_options,
                   ReadHostOptions(options, parser, security, &watchdog));
  ASSIGN_OR_RETURN(const PeerOptions peers, ReadPeerOptions(security));
  RemoteVerifier verifier(peers.verifier);
  RemoteDrafter remote_drafter(peers.drafter);
  GuardedDrafter drafter(&remote_drafter, model->config.dims.vocabulary);
  ASSIGN_OR_RETURN(SharedFiles files, OpenSharedFiles(model->config.dims.vocabulary));
  SetLinkOptions(files, model->config.dims, &options.link);
  ASSIGN_OR_RETURN(const auto telemetry,
                   MakeTelemetry("orchestrator", model->name, *security,
                                 {.origins = absl::GetFlag(FLAGS_http_origins),
                                  .max_connections = host_options.max_threads,
                                  .errors = OpenAiApi::Errors()}));
  ServingTelemetry serving(telemetry.get());
  host_options.on_connection_refused = telemetry->RefusalCounter();
  std::unique_ptr<wire::ServiceHost> host;
  Readiness readiness;
  const auto on_ready = [&](bool ready) { readiness.SetReady(ready); };
  Scheduler scheduler(options, &verifier, &drafter, on_ready, serving.observer());
  TransportMetrics verifier_transport(telemetry->metrics(), "verifier", &verifier.transport());
  TransportMetrics drafter_transport(telemetry->metrics(), "drafter", &remote_drafter.transport());
  RequestIntake intake(&parser, &scheduler,
                       {.max_client_calls = absl::GetFlag(FLAGS_max_client_calls)});
  const CallOptions calls = {model.get(), &scheduler, serving.observer(),
                             absl::GetFlag(FLAGS_stream_interval)};
  Console console(calls, &intake, serving.feed(), absl::GetFlag(FLAGS_show_text));
  ASSIGN_OR_RETURN(const auto tool_format, ReadToolFormat());
  OpenAiApi openai(calls, &intake, telemetry->tracer(), tool_format);
  RETURN_IF_ERROR(telemetry->Serve(
      [&] {
        serving.Refresh(scheduler.stats());
        verifier_transport.Refresh();
        drafter_transport.Refresh();
      },
      HttpRoutes(console, openai)));
  const auto stop_http = absl::MakeCleanup([&] { telemetry->Stop(); });
  GenerationService service(calls, &intake,
                            {.tracer = telemetry->tracer(),
                             .security = security,
                             .watchdog = &watchdog,
                             .slow_client = options.slow_client});
  OrchestratorInspection inspection(
      &scheduler, &telemetry->timeline(), security,
      {{"drafter", absl::GetFlag(FLAGS_drafter)}, {"verifier", absl::GetFlag(FLAGS_verifier)}});
  ASSIGN_OR_RETURN(host, wire::ServiceHost::Start(host_options, {&service, &inspection}));
  signals.Arm(absl::GetFlag(FLAGS_grace) + kStopLimit);
  readiness.ShowIn([&](bool serving) { host->SetServing(serving); });
  LOG(INFO) << "serving " << model->name << " on " << host_options.addresses[0];
  ServeUntilSignal(signals, readiness, *host, scheduler, verifier);
  return absl::OkStatus();
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary = "Serves text generation over a drafter and a verifier.",
      .usage = "--target DIR [flags]",
      .example =
          "--target deploy/demo_model/target --verifier unix:///run/bastion/verifier.sock "
          "--drafter unix:///run/bastion/drafter.sock",
      .required = {"target"},
      .groups = {{"Model", {"target DIR", "model_name NAME", "tool_format FORMAT"}},
                 {"Connections",
                  {"listen ADDRESSES", "verifier ADDRESS", "drafter ADDRESS", "carrier CARRIER",
                   "max_streams N", "max_connection_idle DURATION", "max_connection_age DURATION"}},
                 bastion::wire::SecurityFlagGroup(),
                 {"Telemetry",
                  {"http_listen ADDRESS", "http_hosts NAMES", "http_max_per_address N",
                   "http_proxies NETWORKS", "http_idle_timeout DURATION", "http_origins ORIGINS",
                   "show_text", "trace_detail"}},
                 {"Speculation",
                  {"policy POLICY", "max_tree_nodes N", "allowed_policies NAMES", "prior PATH",
                   "learn_prior FILE", "acceptance_calibration FILE", "latency_profile FILE"}},
                 {"Load",
                  {"max_running N", "max_waiting N", "prefill_rows N", "max_prompt_bytes N",
                   "refuse_special_tokens", "max_client_calls N"}},
                 {"Times",
                  {"stream_interval DURATION", "draft_timeout DURATION", "park_after DURATION",
                   "slow_client DURATION", "peer_timeout DURATION", "verifier_patience DURATION",
                   "profile_limit DURATION", "grace DURATION"}}}};
  bastion::wire::StopSignals signals;
  return bastion::RunProgram(argc, argv, info, [&](const auto&) { return bastion::Run(signals); });
}
