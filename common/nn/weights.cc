#include "common/nn/weights.h"

#include <numeric>

#include "common/base/status.h"
#include "common/nn/device.h"

namespace bastion::nn {
namespace {

at::ScalarType ScalarTypeOf(hub::DType dtype) {
  switch (dtype) {
    case hub::DType::kF32:
      return at::kFloat;
    case hub::DType::kBF16:
      return at::kBFloat16;
    case hub::DType::kF16:
      return at::kHalf;
    default:  // A checkpoint hands out floats only.
      break;
  }
  LOG(FATAL) << "dtype " << static_cast<int>(dtype);
  return at::kFloat;
}

kernels::SourceType SourceTypeOf(hub::DType dtype) {
  return dtype == hub::DType::kF32    ? kernels::SourceType::kF32
         : dtype == hub::DType::kBF16 ? kernels::SourceType::kBF16
                                      : kernels::SourceType::kF16;
}

}  // namespace

absl::StatusOr<Tensor> WeightLoader::Mapped(const std::string& name,
                                            const std::vector<int64_t>& shape) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, shape));
  // The mapping is only read; from_blob takes a mutable pointer for want of a const one.
  return at::from_blob(
      const_cast<void*>(view.data), shape, [kept = checkpoint_](void*) {},
      at::TensorOptions(ScalarTypeOf(view.dtype)));
}

absl::StatusOr<Matrix> WeightLoader::Stacked(const std::vector<std::string>& names,
                                             const std::vector<int>& rows, int columns) const {
  std::vector<kernels::SourceMatrix> parts;
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(names[i], {rows[i], columns}));
    parts.push_back({SourceTypeOf(view.dtype), view.data, rows[i]});
  }
  Matrix matrix;
  matrix.packed = {dtype_, std::accumulate(rows.begin(), rows.end(), 0), columns, nullptr};
  const auto elements = matrix.packed.bytes() / kernels::BytesPerElement(dtype_);
  matrix.storage = NewPages({static_cast<int64_t>(elements)}, dtype_, Paging::kHuge);
  matrix.packed.data = matrix.storage.data_ptr();
  plan_.Add(std::move(parts), matrix.packed);
  return matrix;
}

absl::StatusOr<Tensor> WeightLoader::Table(const std::string& name, int rows, int columns) const {
  ASSIGN_OR_RETURN(const Tensor mapped, Mapped(name, {rows, columns}));
  return mapped.to(ToScalarType(StoredType(dtype_)));  // Itself where the types are the same.
}

absl::StatusOr<Tensor> WeightLoader::Vector(const std::string& name, int size) const {
  ASSIGN_OR_RETURN(const Tensor mapped, Mapped(name, {size}));
  return mapped.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

absl::StatusOr<BlockWeights> LoadBlock(const WeightLoader& loader, const std::string& prefix,
                                       const ModelDims& dims) {
  const int query_width = dims.query_heads * dims.head_dim;
  const int kv_width = dims.kv_heads * dims.head_dim;
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  BlockWeights block;
  ASSIGN_OR_RETURN(block.attention_norm,
                   loader.Vector(prefix + "input_layernorm.weight", dims.hidden));
  ASSIGN_OR_RETURN(block.mlp_norm,
                   loader.Vector(prefix + "post_attention_layernorm.weight", dims.hidden));
  ASSIGN_OR_RETURN(block.query_norm, loader.Vector(attention + "q_norm.weight", dims.head_dim));
  ASSIGN_OR_RETURN(block.key_norm, loader.Vector(attention + "k_norm.weight", dims.head_dim));
  ASSIGN_OR_RETURN(block.kvq,
                   loader.Stacked({attention + "k_proj.weight", attention + "v_proj.weight",
                                   attention + "q_proj.weight"},
                                  {kv_width, kv_width, query_width}, dims.hidden));
  ASSIGN_OR_RETURN(block.output,
                   loader.Stacked({attention + "o_proj.weight"}, {dims.hidden}, query_width));
  ASSIGN_OR_RETURN(block.gate_up,
                   loader.Stacked({mlp + "gate_proj.weight", mlp + "up_proj.weight"},
                                  {dims.intermediate, dims.intermediate}, dims.hidden));
  ASSIGN_OR_RETURN(block.down,
                   loader.Stacked({mlp + "down_proj.weight"}, {dims.hidden}, dims.intermediate));
  return block;
}

}  // namespace bastion::nn
