// bastion-drafter: the draft model behind gRPC.

#include "absl/flags/flag.h"
#include "common/base/check.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/nn/local_device.h"
#include "common/wire/service_host.h"
#include "drafter_service/draft/draft_model_loader.h"
#include "drafter_service/features/remote_features.h"
#include "drafter_service/serve/drafter_service.h"

ABSL_FLAG(std::string, drafter, "", "Hugging Face folder of the DFlash drafter");
ABSL_FLAG(std::string, target, "", "Folder of its target: embedding and LM head are read from it");
ABSL_FLAG(std::string, verifier, "127.0.0.1:7072", "gRPC address of the verifier");
ABSL_FLAG(std::vector<std::string>, listen, {"127.0.0.1:7071"},
          "gRPC addresses, e.g. unix:///run/bastion/drafter.sock");
ABSL_FLAG(std::string, carrier, "auto",
          "How features come: auto (shared memory if the verifier offers it) or inline (gRPC)");
ABSL_FLAG(
    std::string, shared_memory, "",
    "Folder (0700) of the socket over which services on this host come to share memory; empty: "
    "off, all goes over gRPC");
ABSL_FLAG(std::string, dtype, "bf16",
          "bf16, fp32, int8 or auto (int8 where this CPU has instructions for it, else bf16): "
          "weights; the context cache of int8 is bf16");
ABSL_FLAG(std::string, device, "auto",
          "cpu, cuda, or auto: a GPU where this build has CUDA and this machine a GPU");
ABSL_FLAG(std::string, backend, "cpu",
          "Kernels for the CPU: cpu, the project's own, or torch, which run wherever libtorch does "
          "(in builds with it)");
ABSL_FLAG(int, gpu, 0, "Which GPU, of those that CUDA_VISIBLE_DEVICES leaves");
ABSL_FLAG(
    std::string, gemm_table, "",
    "File that keeps how this GPU multiplies best, found out at the first start; empty: found "
    "out at every start");
ABSL_FLAG(int, threads, 0, "Threads of the engine; 0: one per core");
ABSL_FLAG(int, kv_tokens, 65536, "Tokens that the context cache holds, all sequences together");
ABSL_FLAG(int, max_sequences, 64, "Sequences that may live at once");

namespace bastion {
namespace {

absl::Status Run() {
  drafter::DrafterOptions options;
  options.drafter_folder = absl::GetFlag(FLAGS_drafter);
  options.target_folder = absl::GetFlag(FLAGS_target);
  if (options.drafter_folder.empty() || options.target_folder.empty()) {
    return absl::InvalidArgumentError("--drafter DIR and --target DIR are needed");
  }
  const std::string backend = absl::GetFlag(FLAGS_backend);
  ASSIGN_OR_RETURN(const nn::LocalDevice local,
                   nn::OpenLocalDevice(absl::GetFlag(FLAGS_threads), backend));
  options.engine.device = local.device;
  options.engine.gpu = absl::GetFlag(FLAGS_gpu);
  options.engine.gemm_table = absl::GetFlag(FLAGS_gemm_table);
  ASSIGN_OR_RETURN(const auto kind, nn::ParseDeviceKind(absl::GetFlag(FLAGS_device), backend));
  ASSIGN_OR_RETURN(const auto loader, drafter::ChooseDraftModelLoader(kind, options.engine.gpu));
  options.load_model = loader.load;
  ASSIGN_OR_RETURN(options.engine.dtype,
                   nn::ParseDraftDType(absl::GetFlag(FLAGS_dtype), loader.on_gpu));
  options.engine.show_progress = true;
  options.engine.kv_tokens = absl::GetFlag(FLAGS_kv_tokens);
  options.max_sequences = absl::GetFlag(FLAGS_max_sequences);
  ASSIGN_OR_RETURN(const auto carrier, wire::ParseCarrierChoice(absl::GetFlag(FLAGS_carrier)));
  drafter::RemoteFeatures features(absl::GetFlag(FLAGS_verifier), carrier);
  ASSIGN_OR_RETURN(const auto engine, drafter::DrafterEngine::Create(options, &features));
  LOG(INFO) << "drafter " << engine->info().model << ": " << engine->info().positions
            << " positions a round, weights in " << Name(options.engine.dtype);

  ASSIGN_OR_RETURN(auto attach,
                   wire::StartAttachServer(absl::GetFlag(FLAGS_shared_memory), "drafter"));
  drafter::DrafterService service(
      engine.get(), [&](SequenceId sequence) { features.Forget(sequence); }, std::move(attach));
  wire::HostOptions host_options;
  host_options.addresses = absl::GetFlag(FLAGS_listen);
  ASSIGN_OR_RETURN(const auto host, wire::ServiceHost::Start(host_options, {&service}));
  features.Start(
      engine->feature_layers(),
      [&](SequenceId sequence, Position committed, TokenId root) {
        service.FeaturesArrived(sequence, committed, root);
      },
      engine->device_reader());
  host->SetServing(true);
  LOG(INFO) << "serving on " << host_options.addresses[0];
  const std::string signal = wire::WaitForStopSignal();
  LOG(INFO) << signal << ": stopping";
  host->Shutdown(absl::Milliseconds(500));
  features.Stop();
  return absl::OkStatus();
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  bastion::wire::BlockStopSignals();
  return bastion::RunProgram(argc, argv,
                             "Runs the draft model: per-position marginals for draft trees.",
                             [](const auto&) { return bastion::Run(); });
}
