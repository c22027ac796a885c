#include "tools/bench/bench_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "drafter_service/replay/acceptance_profile.h"
#include "orchestrator/profile/verify_profile.h"

namespace bastion {
namespace {

// Sequences beside the live ones: those of the profile.
constexpr int kFurtherSequences = 4;

}  // namespace

absl::Status BenchSession::OpenLocal(const SessionOptions& options) {
  LocalOptions local = options.local;
  local.memory.max_sequences = options.max_live + kFurtherSequences;
  files_ = options.files;
  ASSIGN_OR_RETURN(stages_, LocalStages::Create(local));
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(local.target_folder));
  ASSIGN_OR_RETURN(const TargetInfo target, stages_->verifier().Info());
  ASSIGN_OR_RETURN(
      const LatencyProfile profile,
      MeasureProfileWithBar(stages_->verifier(), "profiling the verifier",
                            {.session = uint64_t{1} << 63, .file = options.files.latency_profile}));
  ASSIGN_OR_RETURN(latency_model_, DescribeLatencyModel({target, profile}));
  ArmStages arm = {&stages_->verifier(), &stages_->drafter(), stages_->table()};
  if (!options.files.record.empty()) {
    ASSIGN_OR_RETURN(recorder_, TraceRecorder::Create(options.files.record, {target, profile}));
    arm.recorder = recorder_.get();
  }
  if (const std::string& path = options.files.acceptance_calibration; !path.empty()) {
    ASSIGN_OR_RETURN(AcceptanceFile before, AcceptanceFile::Open(path, config.dims.vocabulary));
    ASSIGN_OR_RETURN(AcceptanceFile after, AcceptanceFile::Open(path, config.dims.vocabulary));
    acceptance_.emplace(std::move(before), std::move(after));
    arm.acceptance = &*acceptance_;
  }
  arms_ = [arm, profile, stops = config.special.eos](const std::string& policy) {
    return MakeLocalArm(policy, arm, profile, stops);
  };
  device_ = target.device;
  mode_ = "in process";
  if (!local.replayed_profile.empty()) absl::StrAppend(&mode_, ", acceptance is replayed");
  if (!local.drafter_weights.empty()) absl::StrAppend(&mode_, ", drafter ", local.drafter_weights);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BenchSession>> BenchSession::Open(const SessionOptions& options) {
  std::unique_ptr<BenchSession> session(new BenchSession());
  if (options.endpoint.empty()) {
    RETURN_IF_ERROR(session->OpenLocal(options));
    return session;
  }
  ASSIGN_OR_RETURN(session->device_, RemoteDevice(options.endpoint));
  session->mode_ = options.endpoint;
  session->arms_ = [endpoint = options.endpoint](const std::string& policy) {
    return MakeRemoteArm(policy, endpoint);
  };
  return session;
}

absl::Status BenchSession::Close() {
  if (recorder_ != nullptr) {
    RETURN_IF_ERROR(recorder_->Close());
  }
  if (!files_.recorded_acceptance.empty()) {
    const drafter::AcceptanceProfile& profile = *stages_->recorded_acceptance();
    RETURN_IF_ERROR(Annotate(profile.Validate(), "--record_acceptance: the profile"));
    RETURN_IF_ERROR(profile.Write(files_.recorded_acceptance));
  }
  return acceptance_.has_value() ? acceptance_->after.Save() : absl::OkStatus();
}

}  // namespace bastion
