#include "engine/cuda/device_weights.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "kernels/ops/pack.h"

namespace bastion::cuda {
namespace {

constexpr size_t kStagingBytes = size_t{32} << 20;

}  // namespace

DeviceLoader::DeviceLoader(std::shared_ptr<const hub::Checkpoint> checkpoint, DType dtype,
                           Stream& stream, ProgressBar* bar)
    : checkpoint_(std::move(checkpoint)), dtype_(dtype), stream_(stream), bar_(bar) {}

absl::Status DeviceLoader::Put(const hub::TensorView& view, Elements elements, DType dtype,
                               char* to) {
  if (staging_.bytes() == 0) {
    ASSIGN_OR_RETURN(staging_, Memory::OnHost(kStagingBytes, "the staging buffer for weights"));
  }
  const kernels::SourceMatrix source = nn::SourceOf(view);
  const size_t element = BytesPerElement(dtype);
  const size_t step = kStagingBytes / element;
  for (size_t first = 0; first < elements.count; first += step) {
    const size_t part = std::min(step, elements.count - first);
    kernels::ConvertElements(source, static_cast<int64_t>(elements.first + first),
                             static_cast<int64_t>(part), dtype, staging_.as<void>());
    stream_.Copy(to + first * element, staging_.as<void>(), part * element);
    RETURN_IF_ERROR(stream_.Synchronize());
    done_ += static_cast<int64_t>(source.row_bytes(static_cast<int>(part)));
    if (bar_ != nullptr) bar_->Show(done_ >> 20, std::max(done_, checkpoint_->bytes()) >> 20);
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceMatrix> DeviceLoader::Stacked(const std::vector<std::string>& names,
                                                   const std::vector<int>& rows, int columns) {
  std::vector<nn::TensorRows> parts;
  parts.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) parts.push_back(nn::AllRows(names[i], rows[i]));
  return Stacked(parts, columns);
}

absl::StatusOr<DeviceMatrix> DeviceLoader::Stacked(const std::vector<nn::TensorRows>& parts,
                                                   int columns) {
  DeviceMatrix matrix;
  matrix.dtype = dtype_;
  for (const nn::TensorRows& part : parts) matrix.rows += part.rows;
  matrix.columns = columns;
  const size_t row_bytes = columns * BytesPerElement(dtype_);
  ASSIGN_OR_RETURN(matrix.storage,
                   Memory::OnDevice(matrix.rows * row_bytes, parts.front().name.c_str()));
  char* to = matrix.storage.as<char>();
  for (const nn::TensorRows& part : parts) {
    ASSIGN_OR_RETURN(const hub::TensorView view,
                     checkpoint_->Tensor(part.name, part.Shape(columns)));
    const Elements elements = {size_t(part.first) * columns, size_t(part.rows) * columns};
    RETURN_IF_ERROR(Put(view, elements, dtype_, to));
    to += part.rows * row_bytes;
  }
  return matrix;
}

absl::StatusOr<DeviceMatrix> DeviceLoader::EachStacked(
    const std::vector<std::vector<nn::TensorRows>>& all, int columns) {
  std::vector<nn::TensorRows> parts;
  for (const auto& each : all) parts.insert(parts.end(), each.begin(), each.end());
  return Stacked(parts, columns);
}

absl::StatusOr<Memory> DeviceLoader::Vector(const std::string& name, int size) {
  return StackedVector({nn::AllRows(name, size)});
}

absl::StatusOr<Memory> DeviceLoader::StackedVector(const std::vector<nn::TensorRows>& parts) {
  size_t size = 0;
  for (const nn::TensorRows& part : parts) size += part.rows;
  ASSIGN_OR_RETURN(Memory vector,
                   Memory::OnDevice(size * sizeof(float), parts.front().name.c_str()));
  float* to = vector.as<float>();
  for (const nn::TensorRows& part : parts) {
    ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(part.name, {part.total}));
    const Elements elements = {size_t(part.first), size_t(part.rows)};
    RETURN_IF_ERROR(Put(view, elements, DType::kF32, reinterpret_cast<char*>(to)));
    to += part.rows;
  }
  return vector;
}

absl::StatusOr<DeviceBlock> LoadDeviceBlock(DeviceLoader& loader, const hub::ModelConfig& config,
                                            int layer) {
  return nn::LoadBlockTensors<DeviceBlock>(loader, config, layer);
}

absl::StatusOr<DeviceVocabulary> LoadDeviceVocabulary(DeviceLoader& loader,
                                                      const hub::ModelConfig& config) {
  const int size = config.dims.vocabulary, width = config.dims.hidden;
  DeviceVocabulary vocabulary;
  ASSIGN_OR_RETURN(vocabulary.table,
                   loader.Stacked({config.names.embedding + ".weight"}, {size}, width));
  if (!config.tie_word_embeddings) {
    ASSIGN_OR_RETURN(vocabulary.own_head,
                     loader.Stacked({config.names.head + ".weight"}, {size}, width));
  }
  return vocabulary;
}

}  // namespace bastion::cuda
