#include "common/nn/weights.h"

#include <numeric>

#include "common/base/status.h"
#include "common/nn/checkpoint_tensors.h"
#include "common/nn/device.h"

namespace bastion::nn {
namespace {

// Returns a copy of `view`, converted to `dtype`.
Buffer Converted(const hub::TensorView& view, DType dtype) {
  const auto count = static_cast<int64_t>(view.bytes / BytesPerElement(view.dtype));
  const Buffer copy = Buffer::Allocate(count * BytesPerElement(dtype));
  kernels::ConvertElements(view.dtype, view.data, count, dtype, copy.data());
  return copy;
}

}  // namespace

absl::StatusOr<Matrix> WeightLoader::Stacked(const std::vector<std::string>& names,
                                             const std::vector<int>& rows, int columns) const {
  std::vector<kernels::SourceMatrix> parts;
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(names[i], {rows[i], columns}));
    parts.push_back({view.dtype, view.data, rows[i]});
  }
  Matrix matrix;
  matrix.packed = {dtype_, std::accumulate(rows.begin(), rows.end(), 0), columns, nullptr};
  matrix.storage = Buffer::Pages(matrix.packed.bytes(), Paging::kHuge);
  matrix.packed.data = matrix.storage.data();
  plan_.Add(std::move(parts), matrix.packed);
  return matrix;
}

absl::StatusOr<Buffer> WeightLoader::Table(const std::string& name, int rows, int columns) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, {rows, columns}));
  if (view.dtype == StoredType(dtype_)) return Buffer::Borrow(view.data, checkpoint_);
  return Converted(view, StoredType(dtype_));
}

absl::StatusOr<Buffer> WeightLoader::Vector(const std::string& name, int size) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, {size}));
  return Converted(view, DType::kF32);
}

absl::StatusOr<BlockWeights> LoadBlock(const WeightLoader& loader, const std::string& prefix,
                                       const ModelDims& dims) {
  return LoadBlockTensors<BlockWeights>(loader, prefix, dims);
}

}  // namespace bastion::nn
