#include "common/nn/weights.h"

#include <numeric>

#include "common/base/status.h"
#include "common/nn/checkpoint_tensors.h"
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
  return LoadBlockTensors<BlockWeights>(loader, prefix, dims);
}

}  // namespace bastion::nn
