#include "tools/train/models/frozen_target.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/ops/pack.h"
#include "tools/train/models/layers.h"

namespace bastion::train {

absl::StatusOr<at::Tensor> ReadTensor(const hub::Checkpoint& checkpoint, const std::string& name,
                                      const std::vector<int64_t>& shape) {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint.Tensor(name, shape));
  const at::Tensor tensor = at::empty(shape, at::kFloat);
  const int64_t rows = shape.front(), columns = tensor.numel() / rows;
  kernels::ConvertElements({view.dtype, view.data, static_cast<int>(rows), view.blocks}, 0,
                           rows * columns, DType::kF32, tensor.data_ptr<float>());
  return tensor;
}

absl::StatusOr<FrozenTarget> FrozenTarget::Load(const std::string& folder) {
  FrozenTarget target;
  target.folder = folder;
  ASSIGN_OR_RETURN(target.config, hub::ReadTargetConfig(folder));
  ASSIGN_OR_RETURN(target.checkpoint, hub::Checkpoint::Open(folder));
  const int64_t hidden = target.config.dims.hidden, vocabulary = target.config.dims.vocabulary;
  const hub::TensorNames& names = target.config.names;
  const auto read = [&](const std::string& name, const std::vector<int64_t>& shape) {
    return ReadTensor(*target.checkpoint, name, shape);
  };
  ASSIGN_OR_RETURN(target.embedding, read(names.embedding + ".weight", {vocabulary, hidden}));
  target.head = target.embedding;
  if (!target.config.tie_word_embeddings) {
    ASSIGN_OR_RETURN(target.head, read(names.head + ".weight", {vocabulary, hidden}));
  }
  ASSIGN_OR_RETURN(target.final_norm, read(names.final_norm + ".weight", {hidden}));
  if (target.config.blocks.norm == hub::NormKind::kLayer) {
    ASSIGN_OR_RETURN(target.final_norm_bias, read(names.final_norm + ".bias", {hidden}));
  }
  return target;
}

absl::Status FrozenTarget::CopyFromLayer(int layer, const std::string& name, at::Tensor to) const {
  const std::string tensor = absl::StrCat(config.names.blocks, layer, ".", name);
  if (layer < 0 || !checkpoint->Has(tensor)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint->Find(tensor));
  ASSIGN_OR_RETURN(at::Tensor values, ReadTensor(*checkpoint, tensor, view.shape));
  for (int64_t d = 0; d < to.dim(); ++d) {
    const int64_t common = std::min(to.size(d), values.size(d));
    to = to.narrow(d, 0, common);
    values = values.narrow(d, 0, common);
  }
  to.copy_(values);
  return absl::OkStatus();
}

at::Tensor FrozenTarget::HeadInput(const at::Tensor& outputs) const {
  const double epsilon = config.blocks.norm_epsilon;
  if (!final_norm_bias.defined()) return RmsNorm(outputs, final_norm, epsilon);
  return at::layer_norm(outputs, final_norm.sizes(), final_norm, final_norm_bias, epsilon);
}

}  // namespace bastion::train
