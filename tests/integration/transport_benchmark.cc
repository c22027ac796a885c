// Measures the time of a cycle's messages without the compute time. The services and their clients
// are real and run in three processes. The engines only busy-wait for a given time.
//
// A cycle is a Verify, the transfer of its features to the drafter, and the Expand that needs them.
// Arguments: large (0: F = 3 x 320, marginals [7, 64]; 1: F = 5 x 4096, marginals [15, 64]), shared
// (0: gRPC, 1: shared memory), and compute, the time that each engine busy-waits, in microseconds.
// p50_us and p99_us are the cycle time minus the compute time and the time to store the features.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/host/service_host.h"
#include "drafter_service/features/remote_features.h"
#include "drafter_service/serve/drafter_service.h"
#include "orchestrator/remote/remote_drafter.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/temp_folder.h"
#include "verifier_service/serve/verifier_service.h"

namespace bastion {
namespace {

constexpr int kRows = 3;  // Tokens that a cycle commits.

struct Setting {
  int width, positions;
  wire::CarrierChoice carrier;
  absl::Duration compute;
};

Setting SettingOf(const benchmark::State& state) {
  const bool large = state.range(0) == 1;
  return {large ? 5 * 4096 : 3 * 320, large ? 15 : 7,
          state.range(1) == 1 ? wire::CarrierChoice::kAuto : wire::CarrierChoice::kInline,
          absl::Microseconds(state.range(2))};
}

void BusyWait(absl::Duration time) {
  const absl::Duration end = Clock::Real().Now() + time;
  while (Clock::Real().Now() < end) {
  }
}

class BusyWaitVerifier final : public verifier::VerifierEngine {
 public:
  explicit BusyWaitVerifier(const Setting& setting)
      : setting_(setting), rows_(size_t{3} * setting.width, 0x3F00) {}

  const TargetInfo& info() const override { return info_; }
  nn::ForwardCost cost() const override { return {}; }
  absl::Status SetFeatureLayers(const std::vector<int>&) override { return absl::OkStatus(); }
  absl::Status Open(SequenceId sequence, const SamplingParams&) override {
    store_.Open(sequence, setting_.width);
    return absl::OkStatus();
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> /*prompts*/) override {
    const absl::Duration start = Clock::Real().Now();
    BusyWait(setting_.compute);
    store_.Append(forest[0].sequence,
                  {reinterpret_cast<const char*>(rows_.data()), rows_.size() * sizeof(rows_[0])},
                  5);
    VerifyResult result;
    result.outcomes = {{absl::OkStatus(), {{1, 2}, 5}}};
    result.trace.forward = stored_at_ - start;
    return result;
  }
  void Close(SequenceId sequence) override { store_.Close(sequence); }
  verifier::FeatureStore& features() override { return store_; }
  int live_sequences() const override { return 1; }
  int free_kv_tokens() const override { return 1; }

 private:
  const Setting setting_;
  const std::vector<uint16_t> rows_;  // Features of the root and two nodes, bf16.
  TargetInfo info_;
  verifier::FeatureStore store_{DType::kBF16, int64_t{1} << 33};
  absl::Duration stored_at_;
  // The first listener, so it is called before the features are sent.
  const std::shared_ptr<void> listening_ =
      store_.Listen([this] { stored_at_ = Clock::Real().Now(); });
};

// Drafts as soon as features arrive, like the real drafter.
class BusyWaitDrafter final : public drafter::DrafterEngine {
 public:
  BusyWaitDrafter(const Setting& setting, FeatureSource* features)
      : setting_(setting), features_(features) {
    Marginals& marginals = draft_.marginals.emplace_back();
    marginals.positions = setting.positions;
    marginals.candidates = 64;
    marginals.tokens.assign(size_t(marginals.positions) * marginals.candidates, 1);
    marginals.log_probs.assign(marginals.tokens.size(), -1.0f);
  }

  const DrafterInfo& info() const override { return info_; }
  nn::ForwardCost cost() const override { return {}; }
  const std::vector<int>& feature_layers() const override { return layers_; }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override {
    RETURN_IF_ERROR(CatchUp(frontiers[0].sequence, frontiers[0].committed));
    return std::vector<Draft>{draft_};
  }
  void FeaturesArrived(SequenceId sequence, Position committed, TokenId) override {
    (void)CatchUp(sequence, committed);
  }
  bool AppendPiece(const FeatureRange&, absl::StatusOr<Features>) override { return true; }
  void Close(SequenceId) override {}
  int live_sequences() const override { return 1; }
  const DraftTrace& last_trace() const override { return trace_; }

 private:
  absl::Status CatchUp(SequenceId sequence, Position committed) {
    if (context_ == committed) return absl::OkStatus();
    const auto features =
        features_->Read({sequence, context_, committed - context_}, absl::Seconds(1));
    RETURN_IF_ERROR(features.status());
    context_ = committed;
    BusyWait(setting_.compute);
    return absl::OkStatus();
  }

  const Setting setting_;
  FeatureSource* const features_;
  const std::vector<int> layers_ = {0};
  DrafterInfo info_;
  Draft draft_;
  DraftTrace trace_;
  Position context_ = 0;
};

// Runs each service in its own process, and the orchestrator's clients in this process.
class System {
 public:
  explicit System(const Setting& setting) : setting_(setting) {
    Spawn([this] { RunVerifier(); });
    Spawn([this] { RunDrafter(); });
    verifier_ = std::make_unique<RemoteVerifier>(
        RemoteOptions{.address = Address("verifier"), .carrier = setting_.carrier});
    drafter_ = std::make_unique<RemoteDrafter>(
        RemoteOptions{.address = Address("drafter"), .carrier = setting_.carrier});
    while (!verifier_->Info().ok()) absl::SleepFor(absl::Milliseconds(50));
    const absl::Status opened = verifier_->Open(kSequence, {});
    CHECK(opened.ok()) << opened;
    while (!Cycle().ok()) absl::SleepFor(absl::Milliseconds(50));
  }
  ~System() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

  // Runs one cycle and returns its duration without the time of the engines.
  absl::StatusOr<absl::Duration> Cycle() {
    StopWatch watch;
    DraftTree tree(5);
    for (int i = 0; i < 15; ++i) tree.Add(NodeIndex::Of(i / 2), i, -1.0f);
    ASSIGN_OR_RETURN(const VerifyResult verified,
                     verifier_->Verify({{kSequence, committed_, std::move(tree)}}, {}));
    committed_ += kRows;
    Frontier frontier;
    frontier.sequence = kSequence;
    frontier.committed = committed_;
    ASSIGN_OR_RETURN(const DraftResult drafted, drafter_->Expand({frontier}));
    CHECK(!drafted.drafts.at(0).marginals.empty());
    return watch.Lap() - verified.trace.forward - setting_.compute;
  }

 private:
  static constexpr SequenceId kSequence = {1, 0};

  void Spawn(const std::function<void()>& run) {
    const pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run();
      pause();
    }
    children_.push_back(child);
  }
  std::string Address(const std::string& name) const { return "unix://" + folder_.File(name); }
  std::unique_ptr<wire::AttachServer> Attach(const std::string& name) const {
    auto attach = wire::StartAttachServer(folder_.File("shm"), name);
    CHECK(attach.ok()) << attach.status();
    return *std::move(attach);
  }
  void Host(const std::string& name, grpc::Service* service) const {
    wire::HostOptions options;
    options.addresses = {Address(name)};
    auto host = wire::ServiceHost::Start(options, {service});
    CHECK(host.ok()) << host.status();
    pause();
  }
  void RunVerifier() const {
    BusyWaitVerifier engine(setting_);
    verifier::VerifierService service(&engine, Attach("verifier"));
    Host("verifier", &service);
  }
  void RunDrafter() const {
    drafter::RemoteFeatures features(Address("verifier"), setting_.carrier);
    BusyWaitDrafter engine(setting_, &features);
    drafter::DrafterService service(
        &engine, [](SequenceId) {}, Attach("drafter"));
    features.Start(engine.feature_layers(),
                   [&](SequenceId sequence, Position committed, TokenId root) {
                     service.FeaturesArrived(sequence, committed, root);
                   });
    Host("drafter", &service);
  }

  const Setting setting_;
  testing::TempFolder folder_;
  std::vector<pid_t> children_;
  std::unique_ptr<RemoteVerifier> verifier_;
  std::unique_ptr<RemoteDrafter> drafter_;
  Position committed_ = 0;
};

// gRPC does not survive a fork, so each setting runs in its own process. It writes its times to the
// descriptor `out`.
void Measure(const Setting& setting, int cycles, int out) {
  System system(setting);
  for (int i = 0; i < cycles / 10; ++i) CHECK(system.Cycle().ok());
  for (int i = 0; i < cycles; ++i) {
    const auto duration = system.Cycle();
    CHECK(duration.ok()) << duration.status();
    const double microseconds = absl::ToDoubleMicroseconds(*duration);
    CHECK_EQ(write(out, &microseconds, sizeof microseconds), ssize_t{sizeof microseconds});
  }
}

void BM_CycleBeyondCompute(benchmark::State& state) {
  constexpr int kCycles = 3000;
  std::vector<double> times;
  for (auto _ : state) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      Measure(SettingOf(state), kCycles, ends[1]);
      _exit(0);
    }
    close(ends[1]);
    double time;
    while (read(ends[0], &time, sizeof time) == ssize_t{sizeof time}) times.push_back(time);
    close(ends[0]);
    waitpid(child, nullptr, 0);
  }
  CHECK(!times.empty());
  std::sort(times.begin(), times.end());
  state.counters["p50_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
}
BENCHMARK(BM_CycleBeyondCompute)
    ->ArgNames({"large", "shared", "compute"})
    ->ArgsProduct({{0, 1}, {0, 1}, {0, 1000}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bastion
