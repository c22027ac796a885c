#include "common/nn/weights.h"

#include <cstring>
#include <numeric>

#include "common/base/status.h"
#include "common/nn/device.h"
#include "kernels/backend.h"

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

}  // namespace

bool WeightLoader::Has(const std::string& name) const { return checkpoint_.Has(name); }

absl::StatusOr<Tensor> WeightLoader::Read(const std::string& name,
                                          const std::vector<int64_t>& shape,
                                          kernels::DType dtype) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_.Tensor(name, shape));
  // The mapping is only read; from_blob takes a mutable pointer for want of a const one.
  const Tensor mapped = at::from_blob(const_cast<void*>(view.data), shape,
                                      at::TensorOptions(ScalarTypeOf(view.dtype)));
  return mapped.to(ToScalarType(dtype)).contiguous();
}

absl::StatusOr<Matrix> WeightLoader::Stacked(const std::vector<std::string>& names,
                                             const std::vector<int>& rows, int columns) const {
  const bool rounds = dtype_ == kernels::DType::kInt8;  // From floats.
  const kernels::DType read_as = rounds ? kernels::DType::kF32 : dtype_;
  std::vector<Tensor> parts;
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(parts.emplace_back(), Read(names[i], {rows[i], columns}, read_as));
  }
  const Tensor stacked = parts.size() == 1 ? parts[0] : at::cat(parts, 0);
  Matrix matrix;
  matrix.packed = {dtype_, static_cast<int>(stacked.size(0)), columns, nullptr};
  const auto elements = matrix.packed.bytes() / kernels::BytesPerElement(dtype_);
  matrix.storage = NewTensor({static_cast<int64_t>(elements)}, dtype_);
  kernels::PackMatrix(dtype_, stacked.data_ptr(), matrix.packed.rows, columns,
                      matrix.storage.data_ptr());
  matrix.packed.data = matrix.storage.data_ptr();
  return matrix;
}

absl::StatusOr<Tensor> WeightLoader::Table(const std::string& name, int rows, int columns) const {
  ASSIGN_OR_RETURN(const Tensor table, Read(name, {rows, columns}, StoredType(dtype_)));
  return table.clone();
}

absl::StatusOr<Tensor> WeightLoader::Vector(const std::string& name, int size) const {
  ASSIGN_OR_RETURN(const Tensor vector, Read(name, {size}, kernels::DType::kF32));
  return vector.clone();
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
