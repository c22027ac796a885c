#include "common/cuda/device_weights.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/nn/checkpoint_tensors.h"
#include "kernels/pack.h"

namespace bastion::cuda {
namespace {

constexpr size_t kStagingBytes = size_t{32} << 20;

}  // namespace

DeviceLoader::DeviceLoader(std::shared_ptr<const hub::Checkpoint> checkpoint, DType dtype,
                           Stream& stream, ProgressBar* bar)
    : checkpoint_(std::move(checkpoint)), dtype_(dtype), stream_(stream), bar_(bar) {
  for (const auto& file : std::filesystem::directory_iterator(checkpoint_->folder())) {
    if (file.path().extension() == ".safetensors") total_ += static_cast<int64_t>(file.file_size());
  }
}

absl::Status DeviceLoader::Put(const hub::TensorView& view, DType dtype, char* to) {
  if (staging_.bytes() == 0) {
    ASSIGN_OR_RETURN(staging_, Memory::OnHost(kStagingBytes, "the staging buffer for weights"));
  }
  const DType type = view.dtype;
  const size_t source = type == DType::kF32 ? 4 : 2;
  const size_t element = BytesPerElement(dtype);
  const size_t count = view.bytes / source, step = kStagingBytes / element;
  for (size_t first = 0; first < count; first += step) {
    const size_t part = std::min(step, count - first);
    kernels::ConvertElements(type, static_cast<const char*>(view.data) + first * source,
                             static_cast<int64_t>(part), dtype, staging_.as<void>());
    stream_.Copy(to + first * element, staging_.as<void>(), part * element);
    RETURN_IF_ERROR(stream_.Synchronize());
    done_ += static_cast<int64_t>(part * source);
    if (bar_ != nullptr) bar_->Show(done_ >> 20, std::max(done_, total_) >> 20);
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceMatrix> DeviceLoader::Stacked(const std::vector<std::string>& names,
                                                   const std::vector<int>& rows, int columns) {
  DeviceMatrix matrix;
  matrix.dtype = dtype_;
  matrix.rows = std::accumulate(rows.begin(), rows.end(), 0);
  matrix.columns = columns;
  const size_t row_bytes = columns * BytesPerElement(dtype_);
  ASSIGN_OR_RETURN(matrix.storage,
                   Memory::OnDevice(matrix.rows * row_bytes, names.front().c_str()));
  char* to = matrix.storage.as<char>();
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(names[i], {rows[i], columns}));
    RETURN_IF_ERROR(Put(view, dtype_, to));
    to += rows[i] * row_bytes;
  }
  return matrix;
}

absl::StatusOr<Memory> DeviceLoader::Vector(const std::string& name, int size) {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, {size}));
  ASSIGN_OR_RETURN(Memory vector, Memory::OnDevice(size * sizeof(float), name.c_str()));
  RETURN_IF_ERROR(Put(view, DType::kF32, vector.as<char>()));
  return vector;
}

absl::StatusOr<DeviceBlock> LoadDeviceBlock(DeviceLoader& loader, const std::string& prefix,
                                            const ModelDims& dims) {
  return nn::LoadBlockTensors<DeviceBlock>(loader, prefix, dims);
}

absl::StatusOr<DeviceVocabulary> LoadDeviceVocabulary(DeviceLoader& loader,
                                                      const hub::ModelConfig& config) {
  const int size = config.dims.vocabulary, width = config.dims.hidden;
  DeviceVocabulary vocabulary;
  ASSIGN_OR_RETURN(vocabulary.table, loader.Stacked({"model.embed_tokens.weight"}, {size}, width));
  if (!config.tie_word_embeddings) {
    ASSIGN_OR_RETURN(vocabulary.own_head, loader.Stacked({"lm_head.weight"}, {size}, width));
  }
  return vocabulary;
}

}  // namespace bastion::cuda
