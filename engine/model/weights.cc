#include "engine/model/weights.h"

#include "common/base/status.h"
#include "engine/model/device.h"

namespace bastion::nn {
namespace {

// Returns a copy of the `count` elements of `view`, converted to `dtype`.
Buffer Converted(const hub::TensorView& view, int64_t count, DType dtype) {
  const Buffer copy = Buffer::Allocate(count * BytesPerElement(dtype));
  kernels::ConvertElements(SourceOf(view), 0, count, dtype, copy.data());
  return copy;
}

}  // namespace

absl::StatusOr<Matrix> WeightLoader::Stacked(const std::vector<std::string>& names,
                                             const std::vector<int>& rows, int columns) const {
  std::vector<TensorRows> parts;
  parts.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) parts.push_back(AllRows(names[i], rows[i]));
  return Stacked(parts, columns);
}

absl::StatusOr<Matrix> WeightLoader::Stacked(const std::vector<TensorRows>& parts,
                                             int columns) const {
  return StackedAs(dtype_, parts, columns);
}

absl::StatusOr<Matrix> WeightLoader::StackedPrecise(const std::vector<TensorRows>& parts,
                                                    int columns) const {
  return StackedAs(StoredType(dtype_), parts, columns);
}

absl::StatusOr<std::vector<Matrix>> WeightLoader::EachStacked(
    const std::vector<std::vector<TensorRows>>& all, int columns) const {
  std::vector<Matrix> matrices;
  for (const std::vector<TensorRows>& parts : all) {
    ASSIGN_OR_RETURN(Matrix matrix, Stacked(parts, columns));
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

absl::StatusOr<Matrix> WeightLoader::StackedAs(DType dtype, const std::vector<TensorRows>& parts,
                                               int columns) const {
  std::vector<kernels::SourceMatrix> sources;
  int rows = 0;
  for (const TensorRows& part : parts) {
    ASSIGN_OR_RETURN(const hub::TensorView view,
                     checkpoint_->Tensor(part.name, part.Shape(columns)));
    kernels::SourceMatrix source = SourceOf(view);
    source.rows = part.rows;
    source.data = static_cast<const char*>(view.data) + source.row_bytes(columns) * part.first;
    sources.push_back(source);
    rows += part.rows;
  }
  Matrix matrix;
  matrix.packed = {dtype, rows, columns, nullptr};
  matrix.storage = Buffer::Pages(matrix.packed.bytes(), Paging::kHuge);
  matrix.packed.data = matrix.storage.data();
  plan_.Add(std::move(sources), matrix.packed, checkpoint_);
  return matrix;
}

absl::StatusOr<Buffer> WeightLoader::Table(const std::string& name, int rows, int columns) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, {rows, columns}));
  return Converted(view, int64_t{rows} * columns, StoredType(dtype_));
}

absl::StatusOr<Buffer> WeightLoader::Vector(const std::string& name, int size) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, {size}));
  return Converted(view, size, DType::kF32);
}

absl::StatusOr<Buffer> WeightLoader::StackedVector(const std::vector<TensorRows>& parts) const {
  size_t size = 0;
  for (const TensorRows& part : parts) size += part.rows;
  Buffer stacked = Buffer::Allocate(size * sizeof(float));
  float* to = stacked.as<float>();
  for (const TensorRows& part : parts) {
    ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(part.name, {part.total}));
    kernels::ConvertElements(SourceOf(view), part.first, part.rows, DType::kF32, to);
    to += part.rows;
  }
  return stacked;
}

absl::StatusOr<BlockWeights> LoadBlock(const WeightLoader& loader, const hub::ModelConfig& config,
                                       int layer) {
  return LoadBlockTensors<BlockWeights>(loader, config, layer);
}

}  // namespace bastion::nn
