#include "tools/train/loop/training_state.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/safetensors.h"
#include "common/hub/safetensors_writer.h"
#include "tools/train/models/drafter_files.h"

namespace bastion::train {
namespace {

constexpr char kCounters[] = "counters";  // I64 [4], in the order of TrainingCounters.
constexpr char kParameter[] = "parameter.";
constexpr char kConstant[] = "constant.";

absl::Status OtherRun(const hub::SafetensorsFile& file, const std::string& name, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": tensor '", name, "' ", what,
      "; this is the state of another training run. Train into another folder (--out)"));
}

absl::Status CopyFrom(const hub::SafetensorsFile& file, const std::string& name,
                      const at::Tensor& to) {
  const absl::StatusOr<hub::TensorView> view = file.Tensor(name);
  if (!view.ok() || view->dtype != DType::kF32 || to.sizes() != at::IntArrayRef(view->shape)) {
    return OtherRun(file, name, "is missing or has another shape");
  }
  const at::NoGradGuard no_gradients;
  to.copy_(at::from_blob(const_cast<void*>(view->data), view->shape, at::kFloat));
  return absl::OkStatus();
}

// Constants depend on the teacher text, which may have grown.
absl::Status CheckConstant(const hub::SafetensorsFile& file, const std::string& name,
                           const at::Tensor& expected) {
  const auto saved = hub::ReadVector<int64_t>(file, name);
  const auto* const values = expected.const_data_ptr<int64_t>();
  if (saved.ok() && std::equal(saved->begin(), saved->end(), values, values + expected.numel())) {
    return absl::OkStatus();
  }
  return OtherRun(file, name, "is missing or has other values");
}

}  // namespace

absl::Status SaveTrainingState(const Parameters& parameters, const Optimizer& optimizer,
                               const TrainingCounters& counters, const std::string& path) {
  const std::vector<int64_t> numbers = {counters.steps, counters.nanoseconds, counters.labels,
                                        counters.best_millionths};
  std::vector<hub::NamedTensor> tensors = {hub::TensorOf(kCounters, numbers)};
  std::vector<at::Tensor> kept;
  for (const Parameter& parameter : parameters.all()) {
    kept.push_back(parameter.value.detach());
    tensors.push_back(FileTensor(kParameter + parameter.name, kept.back()));
  }
  for (const Parameter& constant : parameters.constants()) {
    tensors.push_back(FileTensor(kConstant + constant.name, constant.value));
  }
  for (const Optimizer::Moment& moment : optimizer.moments()) {
    tensors.push_back(FileTensor(moment.name, moment.value));
  }
  return hub::WriteSafetensors(tensors, path);
}

absl::StatusOr<TrainingCounters> LoadTrainingState(const Parameters& parameters,
                                                   Optimizer& optimizer, const std::string& path) {
  ASSIGN_OR_RETURN(const hub::SafetensorsFile file, hub::SafetensorsFile::Open(path));
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, hub::ReadVector<int64_t>(file, kCounters));
  if (numbers.size() != 4) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not the state of a training run"));
  }
  for (const Parameter& parameter : parameters.all()) {
    RETURN_IF_ERROR(CopyFrom(file, kParameter + parameter.name, parameter.value));
  }
  for (const Parameter& constant : parameters.constants()) {
    RETURN_IF_ERROR(CheckConstant(file, kConstant + constant.name, constant.value));
  }
  for (const Optimizer::Moment& moment : optimizer.moments()) {
    RETURN_IF_ERROR(CopyFrom(file, moment.name, moment.value));
  }
  optimizer.SetSteps(numbers[0]);
  return TrainingCounters{numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace bastion::train
