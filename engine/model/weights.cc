#include "engine/model/weights.h"

#include "common/base/status.h"

namespace bastion::nn {
namespace {

// The elements of `view`, whose rows the caller counts.
kernels::SourceMatrix SourceOf(const hub::TensorView& view) {
  return {view.dtype, view.data, 0, view.blocks};
}

}  // namespace

absl::StatusOr<Matrix> WeightLoader::EachStacked(const std::vector<std::vector<TensorRows>>& all,
                                                 int columns, WeightFormat format) const {
  std::vector<std::vector<kernels::SourceMatrix>> sources(all.size());
  Matrix matrix;
  matrix.format = format;
  matrix.columns = columns;
  matrix.count = static_cast<int>(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    matrix.rows = 0;
    for (const TensorRows& part : all[i]) {
      ASSIGN_OR_RETURN(const hub::TensorView view,
                       checkpoint_->Tensor(part.name, part.Shape(columns)));
      kernels::SourceMatrix source = SourceOf(view);
      source.rows = part.rows;
      source.data = static_cast<const char*>(view.data) + source.row_bytes(columns) * part.first;
      sources[i].push_back(source);
      matrix.rows += part.rows;
    }
  }
  matrix.bytes = device_.MatrixBytes(format, matrix.rows, columns);
  ASSIGN_OR_RETURN(matrix.storage,
                   device_.Allocate(matrix.bytes * matrix.count, all.front().front().name.c_str(),
                                    Paging::kHuge));
  for (size_t i = 0; i < all.size(); ++i) {
    plan_.Add(std::move(sources[i]), matrix, static_cast<int>(i), checkpoint_);
  }
  return matrix;
}

absl::StatusOr<Matrix> WeightLoader::WithBias(std::vector<TensorRows> parts, int columns,
                                              bool bias) const {
  std::vector<TensorRows> biases = parts;
  for (TensorRows& part : parts) part.name += ".weight";
  ASSIGN_OR_RETURN(Matrix matrix, Stacked(parts, columns));
  if (bias) {
    for (TensorRows& part : biases) part.name += ".bias";
    ASSIGN_OR_RETURN(matrix.bias, StackedVector(biases));
  }
  return matrix;
}

absl::StatusOr<Buffer> WeightLoader::Table(const std::string& name, int rows, int columns) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, {rows, columns}));
  const int64_t elements = int64_t{rows} * columns;
  const DType type = formats_.activations;
  ASSIGN_OR_RETURN(Buffer table, device_.Allocate(Bytes(type, elements), name.c_str()));
  RETURN_IF_ERROR(device_.Convert(SourceOf(view), {0, elements}, type, table.data()));
  return table;
}

absl::StatusOr<Buffer> WeightLoader::StackedVector(const std::vector<TensorRows>& parts) const {
  size_t size = 0;
  for (const TensorRows& part : parts) size += part.rows;
  ASSIGN_OR_RETURN(Buffer stacked,
                   device_.Allocate(size * sizeof(float), parts.front().name.c_str()));
  float* to = stacked.as<float>();
  for (const TensorRows& part : parts) {
    ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(part.name, {part.total}));
    RETURN_IF_ERROR(device_.Convert(SourceOf(view), {part.first, part.rows}, DType::kF32, to));
    to += part.rows;
  }
  return stacked;
}

absl::StatusOr<Buffer> WeightLoader::Elements(const std::string& name,
                                              absl::Span<const int64_t> shape) const {
  ASSIGN_OR_RETURN(const hub::TensorView view, checkpoint_->Tensor(name, shape));
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  ASSIGN_OR_RETURN(Buffer elements, device_.Allocate(Bytes(DType::kF32, count), name.c_str()));
  RETURN_IF_ERROR(device_.Convert(SourceOf(view), {0, count}, DType::kF32, elements.data()));
  return elements;
}

absl::StatusOr<Norm> WeightLoader::LoadNorm(const std::string& name,
                                            const hub::ModelConfig& config) const {
  Norm norm;
  norm.kind = config.blocks.norm;
  norm.epsilon = static_cast<float>(config.blocks.norm_epsilon);
  norm.width = config.dims.hidden;
  ASSIGN_OR_RETURN(norm.weight, Vector(name + ".weight", norm.width));
  if (norm.kind == hub::NormKind::kLayer) {
    ASSIGN_OR_RETURN(norm.bias, Vector(name + ".bias", norm.width));
  }
  return norm;
}

absl::StatusOr<Buffer> IdsOn(Device& device, const std::vector<TokenId>& ids) {
  const size_t bytes = ids.size() * sizeof(TokenId);
  ASSIGN_OR_RETURN(Buffer copy, device.Allocate(bytes, "the draft vocabulary"));
  device.Copy(copy.data(), ids.data(), bytes);
  RETURN_IF_ERROR(device.Finish());
  return copy;
}

std::vector<TensorRows> ChosenRows(const std::string& name, int total,
                                   const std::vector<int32_t>& chosen) {
  std::vector<TensorRows> parts;
  for (const int32_t row : chosen) {
    if (!parts.empty() && parts.back().first + parts.back().rows == row) {
      ++parts.back().rows;
    } else {
      parts.push_back({name, row, 1, total});
    }
  }
  return parts;
}

absl::StatusOr<Vocabulary> LoadVocabulary(const WeightLoader& loader,
                                          const hub::ModelConfig& config,
                                          const std::vector<TokenId>* head_tokens) {
  const std::string table = config.names.embedding + ".weight";
  const int size = config.dims.vocabulary, width = config.dims.hidden;
  Vocabulary vocabulary;
  vocabulary.type = loader.formats().activations;
  ASSIGN_OR_RETURN(vocabulary.table, loader.Table(table, size, width));
  const std::string head = config.tie_word_embeddings ? table : config.names.head + ".weight";
  if (head_tokens != nullptr) {
    ASSIGN_OR_RETURN(vocabulary.head, loader.Stacked(ChosenRows(head, size, *head_tokens), width));
    ASSIGN_OR_RETURN(vocabulary.ids, IdsOn(loader.device(), *head_tokens));
    return vocabulary;
  }
  if (config.tie_word_embeddings && loader.device().IsTable(loader.formats())) {
    vocabulary.head.format = loader.formats().weights;
    vocabulary.head.rows = size;
    vocabulary.head.columns = width;
    vocabulary.head.bytes = loader.device().MatrixBytes(loader.formats().weights, size, width);
    vocabulary.head.storage = vocabulary.table;
    return vocabulary;
  }
  ASSIGN_OR_RETURN(vocabulary.head, loader.Stacked({AllRows(head, size)}, width));
  return vocabulary;
}

}  // namespace bastion::nn
