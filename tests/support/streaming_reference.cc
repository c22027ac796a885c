#include "tests/support/streaming_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/hub/checkpoint.h"

namespace bastion::testing {
namespace {

using Vector = StreamingReference::Vector;
using Matrix = StreamingReference::Matrix;
using Norm = StreamingReference::Norm;
using Dims = StreamingReference::Dims;
using Layer = StreamingReference::Layer;

// Reads tensors as floats.
class Reader {
 public:
  explicit Reader(const std::string& folder) {
    auto checkpoint = hub::Checkpoint::Open(folder);
    CHECK(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
  }

  [[nodiscard]] std::vector<float> Floats(const std::string& name,
                                          const std::vector<int64_t>& shape) const {
    const auto tensor = checkpoint_->Tensor(name, shape);
    CHECK(tensor.ok()) << tensor.status();
    std::vector<float> values(tensor->bytes / Bytes(tensor->dtype, 1));
    if (tensor->dtype == DType::kF32) {
      std::memcpy(values.data(), tensor->data, tensor->bytes);
      return values;
    }
    CHECK(tensor->dtype == DType::kBF16) << name;
    const auto* halves = static_cast<const uint16_t*>(tensor->data);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t bits = uint32_t{halves[i]} << 16;
      std::memcpy(&values[i], &bits, sizeof(float));
    }
    return values;
  }
  [[nodiscard]] Matrix ReadMatrix(const std::string& name, int rows, int columns) const {
    Matrix matrix = {rows, columns, Floats(name + ".weight", {rows, columns}), {}};
    if (checkpoint_->Has(name + ".bias")) matrix.bias = Floats(name + ".bias", {rows});
    return matrix;
  }
  [[nodiscard]] Norm ReadNorm(const std::string& name, int width) const {
    Norm norm = {Floats(name + ".weight", {width}), {}};
    if (checkpoint_->Has(name + ".bias")) norm.bias = Floats(name + ".bias", {width});
    return norm;
  }

 private:
  std::shared_ptr<const hub::Checkpoint> checkpoint_;
};

Dims ReadDims(const nlohmann::json& config) {
  Dims dims;
  dims.neox = config.at("model_type") == "gpt_neox";
  dims.layers = config.at("num_hidden_layers");
  dims.hidden = config.at("hidden_size");
  dims.inner = config.at("intermediate_size");
  dims.heads = config.at("num_attention_heads");
  dims.vocabulary = config.at("vocab_size");
  dims.kv_heads = config.value("num_key_value_heads", dims.heads);
  dims.head_dim = config.value("head_dim", dims.hidden / dims.heads);
  if (!dims.neox) {
    dims.rotary = dims.head_dim;
    dims.theta = config.at("rope_theta");
    dims.epsilon = config.at("rms_norm_eps");
    return dims;
  }
  dims.parallel = config.at("use_parallel_residual");
  dims.rotary = static_cast<int>(dims.head_dim * config.at("rotary_pct").get<double>());
  dims.theta = config.at("rotary_emb_base");
  dims.epsilon = config.at("layer_norm_eps");
  return dims;
}

Layer ReadQwenLayer(const Reader& reader, const Dims& dims, const std::string& prefix) {
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  const int query = dims.heads * dims.head_dim, kv = dims.kv_heads * dims.head_dim;
  return {.attention_norm = reader.ReadNorm(prefix + "input_layernorm", dims.hidden),
          .mlp_norm = reader.ReadNorm(prefix + "post_attention_layernorm", dims.hidden),
          .query_norm = reader.ReadNorm(attention + "q_norm", dims.head_dim),
          .key_norm = reader.ReadNorm(attention + "k_norm", dims.head_dim),
          .query = reader.ReadMatrix(attention + "q_proj", query, dims.hidden),
          .key = reader.ReadMatrix(attention + "k_proj", kv, dims.hidden),
          .value = reader.ReadMatrix(attention + "v_proj", kv, dims.hidden),
          .output = reader.ReadMatrix(attention + "o_proj", dims.hidden, query),
          .gate = reader.ReadMatrix(mlp + "gate_proj", dims.inner, dims.hidden),
          .up = reader.ReadMatrix(mlp + "up_proj", dims.inner, dims.hidden),
          .down = reader.ReadMatrix(mlp + "down_proj", dims.hidden, dims.inner)};
}

// The rows of query, key and value of each head follow each other: [H, 3, D].
Layer ReadNeoxLayer(const Reader& reader, const Dims& dims, const std::string& prefix) {
  const Matrix all =
      reader.ReadMatrix(prefix + "attention.query_key_value", 3 * dims.hidden, dims.hidden);
  Layer layer;
  layer.attention_norm = reader.ReadNorm(prefix + "input_layernorm", dims.hidden);
  layer.mlp_norm = reader.ReadNorm(prefix + "post_attention_layernorm", dims.hidden);
  layer.output = reader.ReadMatrix(prefix + "attention.dense", dims.hidden, dims.hidden);
  layer.up = reader.ReadMatrix(prefix + "mlp.dense_h_to_4h", dims.inner, dims.hidden);
  layer.down = reader.ReadMatrix(prefix + "mlp.dense_4h_to_h", dims.hidden, dims.inner);
  Matrix* const parts[] = {&layer.query, &layer.key, &layer.value};
  for (int head = 0; head < dims.heads; ++head) {
    for (int part = 0; part < 3; ++part) {
      const Matrix rows = all.Rows((3 * head + part) * dims.head_dim, dims.head_dim);
      Matrix& matrix = *parts[part];
      matrix.rows += rows.rows;
      matrix.columns = rows.columns;
      matrix.values.insert(matrix.values.end(), rows.values.begin(), rows.values.end());
      matrix.bias.insert(matrix.bias.end(), rows.bias.begin(), rows.bias.end());
    }
  }
  return layer;
}

void AddTo(Vector& x, const Vector& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

Vector Matrix::Times(const Vector& x) const {
  Vector y(rows);
  for (int n = 0; n < rows; ++n) {
    const float* row = values.data() + static_cast<size_t>(n) * columns;
    double sum = bias.empty() ? 0.0 : bias[n];
    for (int k = 0; k < columns; ++k) sum += row[k] * x[k];
    y[n] = sum;
  }
  return y;
}

Matrix Matrix::Rows(int begin, int count) const {
  Matrix part = {count, columns, {}, {}};
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin) * columns;
  part.values.assign(first, first + static_cast<std::ptrdiff_t>(count) * columns);
  if (!bias.empty()) part.bias.assign(bias.begin() + begin, bias.begin() + begin + count);
  return part;
}

StreamingReference::StreamingReference(const std::string& folder, int sinks, int window)
    : sinks_(sinks), window_(window) {
  const nlohmann::json config = nlohmann::json::parse(std::ifstream(folder + "/config.json"));
  dims_ = ReadDims(config);
  const Reader reader(folder);
  const std::string model = dims_.neox ? "gpt_neox." : "model.";
  embedding_ = reader.ReadMatrix(model + (dims_.neox ? "embed_in" : "embed_tokens"),
                                 dims_.vocabulary, dims_.hidden);
  head_ = embedding_;
  if (!config.at("tie_word_embeddings").get<bool>()) {
    head_ = reader.ReadMatrix(dims_.neox ? "embed_out" : "lm_head", dims_.vocabulary, dims_.hidden);
  }
  final_norm_ = reader.ReadNorm(model + (dims_.neox ? "final_layer_norm" : "norm"), dims_.hidden);
  for (int layer = 0; layer < dims_.layers; ++layer) {
    const std::string prefix = absl::StrCat(model, "layers.", layer, ".");
    layers_.push_back(dims_.neox ? ReadNeoxLayer(reader, dims_, prefix)
                                 : ReadQwenLayer(reader, dims_, prefix));
  }
  caches_.resize(dims_.layers);
}

Vector StreamingReference::Normed(const Norm& norm, const Vector& x) const {
  Vector y(x.size());
  const size_t width = norm.weight.size();  // A norm of heads repeats.
  for (size_t begin = 0; begin < x.size(); begin += width) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < width; ++i) mean += x[begin + i] / static_cast<double>(width);
    if (norm.bias.empty()) mean = 0;
    for (size_t i = 0; i < width; ++i) square += std::pow(x[begin + i] - mean, 2);
    const double scale = 1 / std::sqrt(square / static_cast<double>(width) + dims_.epsilon);
    for (size_t i = 0; i < width; ++i) {
      y[begin + i] = (x[begin + i] - mean) * scale * norm.weight[i];
      if (!norm.bias.empty()) y[begin + i] += norm.bias[i];
    }
  }
  return y;
}

Vector StreamingReference::Rotated(const Vector& heads, int head, int position) const {
  const auto first = heads.begin() + static_cast<std::ptrdiff_t>(head) * dims_.head_dim;
  Vector x(first, first + dims_.head_dim);
  const int half = dims_.rotary / 2;
  for (int i = 0; i < half; ++i) {
    const double angle = position * std::pow(dims_.theta, -2.0 * i / dims_.rotary);
    const double a = x[i], b = x[i + half];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
  return x;
}

Vector StreamingReference::Attend(int layer, const Vector& normed) {
  const Layer& weights = layers_[layer];
  Vector query = weights.query.Times(normed), key = weights.key.Times(normed);
  if (!weights.query_norm.weight.empty()) query = Normed(weights.query_norm, query);
  if (!weights.key_norm.weight.empty()) key = Normed(weights.key_norm, key);
  std::vector<Token>& cache = caches_[layer];
  cache.push_back({std::move(key), weights.value.Times(normed)});
  if (static_cast<int>(cache.size()) > sinks_ + window_) cache.erase(cache.begin() + sinks_);
  const auto count = static_cast<int>(cache.size());
  const int dim = dims_.head_dim;
  Vector result(static_cast<size_t>(dims_.heads) * dim);
  for (int head = 0; head < dims_.heads; ++head) {
    const int kv_head = head / (dims_.heads / dims_.kv_heads);
    const Vector rotated = Rotated(query, head, count - 1);
    Vector scores(count);
    for (int place = 0; place < count; ++place) {
      const Vector other = Rotated(cache[place].key, kv_head, place);
      for (int d = 0; d < dim; ++d) scores[place] += rotated[d] * other[d] / std::sqrt(dim);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (int place = 0; place < count; ++place) {
      for (int d = 0; d < dim; ++d) {
        result[head * dim + d] += scores[place] / sum * cache[place].value[kv_head * dim + d];
      }
    }
  }
  return weights.output.Times(result);
}

Vector StreamingReference::Mlp(const Layer& layer, const Vector& normed) const {
  Vector inner = layer.up.Times(normed);
  if (dims_.neox) {
    for (double& x : inner) x *= 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
  } else {
    const Vector gate = layer.gate.Times(normed);
    for (size_t i = 0; i < inner.size(); ++i) inner[i] *= gate[i] / (1 + std::exp(-gate[i]));
  }
  return layer.down.Times(inner);
}

Vector StreamingReference::Append(TokenId token) {
  const Matrix row = embedding_.Rows(token, 1);
  Vector x(row.values.begin(), row.values.end());
  for (int i = 0; i < dims_.layers; ++i) {
    const Layer& layer = layers_[i];
    const Vector before = x;
    AddTo(x, Attend(i, Normed(layer.attention_norm, x)));
    AddTo(x, Mlp(layer, Normed(layer.mlp_norm, dims_.parallel ? before : x)));
  }
  return head_.Times(Normed(final_norm_, x));
}

}  // namespace bastion::testing
