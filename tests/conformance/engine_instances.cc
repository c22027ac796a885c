// The engines on tiny random checkpoints: in process, and as services on sockets behind the remote
// stages. Loading measures the device, which is slow, so each kind is created once and shared by
// all tests. The tests use different sessions and close them.
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/host/service_host.h"
#include "drafter_service/features/remote_features.h"
#include "drafter_service/serve/drafter_service.h"
#include "engine/cuda/cuda_device.h"
#include "kernels/cuda/runtime/runtime.h"
#include "orchestrator/remote/remote_drafter.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/conformance/in_process.h"
#include "tests/support/temp_folder.h"
#include "verifier_service/serve/verifier_service.h"

namespace bastion::testing {
namespace {

// A GPU for one engine.
std::shared_ptr<nn::Device> Gpu(const nn::LocalDevice& local) {
  auto gpu = nn::OpenCudaDevice({}, local.device->host());
  CHECK(gpu.ok()) << gpu.status();
  return *std::move(gpu);
}

// The GPU engines. In a build without CUDA, they run on the emulator, which is slow.
class OnGpu final : public InProcess {
 public:
  explicit OnGpu(const std::string& folder)
      : InProcess({.folder = folder, .threads = 1, .max_rows = 128, .open = Gpu}) {}
};

// The same with the target as the drafter.
class AutoregressiveOnGpu final : public InProcess {
 public:
  explicit AutoregressiveOnGpu(const std::string& folder)
      : InProcess(
            {.folder = folder, .drafter = "target", .threads = 1, .max_rows = 128, .open = Gpu}) {}
};

// The services and their clients in one process. Only the wire between them is real. With
// kAutoregressive, the target is also the drafter.
template <wire::CarrierChoice kCarrier, bool kOnGpu = false, bool kAutoregressive = false>
class OverTheWire final : public StagesUnderTest {
 public:
  explicit OverTheWire(const std::string& folder) {
    StartVerifier(folder);
    StartDrafter(folder);
    // A call on an emulated GPU may take seconds.
    RemoteOptions options;
    if (kOnGpu) options.peer_timeout = absl::Minutes(1);
    options.carrier = kCarrier;
    options.address = Address("verifier");
    verifier_ = std::make_unique<RemoteVerifier>(options);
    options.address = Address("drafter");
    drafter_ = std::make_unique<RemoteDrafter>(options);
    if (!kAutoregressive) AwaitSubscription();
  }

  ~OverTheWire() override { features_->Stop(); }

  Verifier& verifier() override { return *verifier_; }
  Drafter& drafter() override { return *drafter_; }

 private:
  std::string Address(const std::string& service) const { return "unix:" + sockets_.File(service); }
  // Each engine has its own thread pool, because both compute at the same time.
  static nn::EngineOptions EngineOptions(nn::LocalDevice& local) {
    auto device = nn::OpenLocalDevice(2);
    CHECK(device.ok()) << device.status();
    local = *std::move(device);
    return {nn::FormatsFor(WeightFormat::kF32), local.device, kKvTokens};
  }

  std::unique_ptr<wire::ServiceHost> Host(const std::string& name, grpc::Service* service) {
    wire::HostOptions options;
    options.addresses = {Address(name)};
    options.reflection = false;
    auto host = wire::ServiceHost::Start(options, {service});
    CHECK(host.ok()) << host.status();
    return *std::move(host);
  }

  std::unique_ptr<wire::AttachServer> Attach(const std::string& name) {
    auto attach = wire::StartAttachServer(sockets_.File("shm"), name);
    CHECK(attach.ok()) << attach.status();
    return *std::move(attach);
  }

  void StartVerifier(const std::string& folder) {
    verifier::VerifierOptions options;
    options.target_folder = folder + "/target";
    options.engine = EngineOptions(verifier_device_);
    options.max_sequences = kMaxSequences;
    options.max_rows = kMaxRows;
    if (kOnGpu) {
      options.engine.device = Gpu(verifier_device_);
      options.engine.share_bytes = 1 << 20;
    }
    auto engine = verifier::VerifierEngine::Create(options);
    CHECK(engine.ok()) << engine.status();
    verifier_engine_ = *std::move(engine);
    verifier_service_ =
        std::make_unique<verifier::VerifierService>(verifier_engine_.get(), Attach("verifier"));
    verifier_host_ = Host("verifier", verifier_service_.get());
  }

  void StartDrafter(const std::string& folder) {
    features_ = std::make_unique<drafter::RemoteFeatures>(Address("verifier"), kCarrier);
    drafter::DrafterOptions options;
    options.drafter_folder = folder + (kAutoregressive ? "/target" : "/drafter");
    options.target_folder = folder + "/target";
    options.engine = EngineOptions(drafter_device_);
    options.max_sequences = kMaxSequences;
    if (kOnGpu) options.engine.device = Gpu(drafter_device_);
    auto engine = drafter::DrafterEngine::Create(options, features_.get());
    CHECK(engine.ok()) << engine.status();
    drafter_engine_ = *std::move(engine);
    drafter_service_ = std::make_unique<drafter::DrafterService>(
        drafter_engine_.get(), [this](SequenceId sequence) { features_->Forget(sequence); },
        Attach("drafter"));
    features_->Start(
        drafter_engine_->feature_layers(),
        [this](SequenceId sequence, Position committed, TokenId root) {
          drafter_service_->FeaturesArrived(sequence, committed, root);
        },
        drafter_engine_->device_reader());
    drafter_host_ = Host("drafter", drafter_service_.get());
  }

  // Waits until the drafter has subscribed. Sequences opened earlier have no features.
  void AwaitSubscription() {
    for (uint32_t epoch = 0; epoch < 500; ++epoch) {
      const SequenceId probe = {~uint64_t{0}, epoch};
      CHECK(verifier_->Open(probe, {}).ok());
      const bool kept = verifier_engine_->features().Rows(probe).ok();
      verifier_->Close(probe);
      if (kept) return;
      absl::SleepFor(absl::Milliseconds(20));
    }
    CHECK(false) << "the drafter has not subscribed";
  }

  testing::TempFolder sockets_;
  nn::LocalDevice verifier_device_, drafter_device_;
  std::unique_ptr<verifier::VerifierEngine> verifier_engine_;
  std::unique_ptr<verifier::VerifierService> verifier_service_;
  std::unique_ptr<wire::ServiceHost> verifier_host_;
  std::unique_ptr<drafter::RemoteFeatures> features_;
  std::unique_ptr<drafter::DrafterEngine> drafter_engine_;
  std::unique_ptr<drafter::DrafterService> drafter_service_;
  std::unique_ptr<wire::ServiceHost> drafter_host_;
  std::unique_ptr<RemoteVerifier> verifier_;
  std::unique_ptr<RemoteDrafter> drafter_;
};

}  // namespace

namespace {

StagesKind TokensOnly(StagesKind kind) {
  kind.features = false;
  return kind;
}

StagesKind WithStates(StagesKind kind) {
  kind.states = true;
  return kind;
}

}  // namespace

std::vector<StagesKind> KindsUnderTest() {
  const std::string pair = "gqa2_untied_draft2", eagle = "eagle3_specforge",
                    specblock = "specblock_shift", peagle = "peagle_speculators",
                    medusa = "medusa_target_head", second = "dflash2_window";
  using wire::CarrierChoice;
  std::vector<StagesKind> kinds = {
      KindOn<InProcess>("InProcess", pair),
      KindOn<InProcess>("InProcessSlidingWindow", "sliding_window"),
      KindOn<InProcess>("Dflash2InProcess", second),
      KindOn<OverTheWire<CarrierChoice::kAuto>>("Dflash2OverSharedMemory", second),
      TokensOnly(KindOn<AutoregressiveInProcess>("AutoregressiveInProcess", pair)),
      TokensOnly(KindOn<AutoregressiveInProcess>("AutoregressiveSlidingWindow", "sliding_window")),
      TokensOnly(
          KindOn<OverTheWire<CarrierChoice::kAuto, /*kOnGpu=*/false,
                             /*kAutoregressive=*/true>>("AutoregressiveOverSharedMemory", pair)),
      WithStates(KindOn<InProcess>("EagleInProcess", eagle)),
      WithStates(KindOn<OverTheWire<CarrierChoice::kInline>>("EagleOverGrpc", eagle)),
      WithStates(KindOn<InProcess>("SpecBlockInProcess", specblock)),
      WithStates(KindOn<OverTheWire<CarrierChoice::kAuto>>("SpecBlockOverSharedMemory", specblock)),
      KindOn<InProcess>("ParallelEagleInProcess", peagle),
      KindOn<OverTheWire<CarrierChoice::kInline>>("ParallelEagleOverGrpc", peagle),
      KindOn<InProcess>("MedusaInProcess", medusa),
      KindOn<OverTheWire<CarrierChoice::kAuto>>("MedusaOverSharedMemory", medusa),
      KindOn<OverTheWire<CarrierChoice::kInline>>("OverGrpc", pair),
      KindOn<OverTheWire<CarrierChoice::kAuto>>("OverSharedMemory", pair)};
  if (kernels::cuda::OpenDevice(0).ok()) {
    kinds.push_back(KindOn<OnGpu>("OnGpu", pair));
    kinds.push_back(TokensOnly(KindOn<AutoregressiveOnGpu>("AutoregressiveOnGpu", pair)));
    // On a GPU, the bits of a row depend on the number of rows.
    kinds.back().row_invariant = false;
    // Features stay in GPU memory.
    kinds.push_back(KindOn<OverTheWire<CarrierChoice::kAuto, /*kOnGpu=*/true>>("OverOneGpu", pair));
  }
  return kinds;
}

}  // namespace bastion::testing
