#include "engine/model/packing_plan.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/mapped_file.h"
#include "engine/model/device.h"

namespace bastion::nn {
namespace {

std::string NameOf(const std::string& folder) {
  return (std::filesystem::path(folder) / "").parent_path().filename().string();
}

}  // namespace

absl::Status CheckFits(const std::string& folder, int64_t bytes, int64_t available,
                       WeightFormat format) {
  if (available == 0 || bytes <= available) return absl::OkStatus();  // 0: not known.
  return absl::ResourceExhaustedError(absl::StrCat(
      folder, ": the weights take ", bytes >> 20, " MB as ", Name(format), ", but only ",
      available >> 20,
      " MB of memory are available; use --weights with fewer bits or a smaller model"));
}

void PackingPlan::Add(std::vector<kernels::SourceMatrix> parts, const Matrix& to, int index,
                      std::shared_ptr<const void> owner) {
  jobs_.push_back({std::move(parts), to, index, std::move(owner)});
}

int64_t PackingPlan::packed_bytes() const {
  int64_t bytes = 0;
  for (const Job& job : jobs_) bytes += static_cast<int64_t>(job.to.bytes);
  return bytes;
}

absl::Status PackingPlan::Run(const std::string& folder, const EngineOptions& options) const {
  Device& device = *options.device;
  RETURN_IF_ERROR(
      CheckFits(folder, packed_bytes(), device.available_bytes(), options.formats.weights));
  std::optional<ProgressBar> bar;
  if (options.show_progress) {
    bar.emplace(absl::StrCat("loading ", NameOf(folder), " as ", packed_bytes() >> 20, " MB of ",
                             Name(options.formats.weights)),
                "MB");
  }
  const auto source_bytes = [](const Job& job) {
    int64_t bytes = 0;
    for (const kernels::SourceMatrix& part : job.parts) bytes += part.bytes(job.to.columns);
    return bytes;
  };
  const auto prefetch = [](const Job& job) {
    for (const kernels::SourceMatrix& part : job.parts) {
      hub::Prefetch({static_cast<const char*>(part.data), part.bytes(job.to.columns)});
    }
  };
  int64_t done = 0, total = 0;
  for (const Job& job : jobs_) total += source_bytes(job);
  for (size_t i = 0; i < jobs_.size(); ++i) {
    // Prefetch the next job, so that the disk reads while the threads pack.
    if (i == 0) prefetch(jobs_[i]);
    if (i + 1 < jobs_.size()) prefetch(jobs_[i + 1]);
    RETURN_IF_ERROR(device.Pack(jobs_[i].parts, jobs_[i].to, jobs_[i].index));
    done += source_bytes(jobs_[i]);
    if (bar.has_value()) bar->Show(done >> 20, total >> 20);
  }
  return absl::OkStatus();
}

}  // namespace bastion::nn
