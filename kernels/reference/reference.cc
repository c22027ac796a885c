#include "kernels/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/base/random.h"

namespace bastion::kernels::reference {
namespace {

double Element(DType dtype, const void* data, size_t index) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[index];
  if (dtype == DType::kInt8) return static_cast<const int8_t*>(data)[index];
  return Bf16ToFloat(static_cast<const uint16_t*>(data)[index]);
}

void SetElement(DType dtype, void* data, size_t index, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = FloatToBf16(value);
  }
}

size_t HeadStart(const KvLayer& cache, int64_t slot, int head) {
  return (size_t(slot / kPageTokens) * cache.kv_heads + head) * cache.head_dim * kPageTokens;
}
size_t KeyIndex(const KvLayer& cache, int64_t slot, int head, int d) {
  return HeadStart(cache, slot, head) + size_t(d) * kPageTokens + slot % kPageTokens;
}
size_t ValueIndex(const KvLayer& cache, int64_t slot, int head, int d) {
  return HeadStart(cache, slot, head) + size_t(slot % kPageTokens) * cache.head_dim + d;
}

std::vector<float> Rotated(const float* x, const float* norm, const QkvArgs& args, int position) {
  const int dim = args.cache.head_dim;
  double squares = 0;
  for (int i = 0; i < dim; ++i) squares += double{x[i]} * x[i];
  const double scale = 1.0 / std::sqrt(squares / dim + args.epsilon);
  const float* cosine = args.cosine_sine + size_t(position) * dim;
  const float* sine = cosine + dim / 2;
  std::vector<float> out(dim);
  for (int i = 0; i < dim / 2; ++i) {
    const double a = x[i] * scale * norm[i];
    const double b = x[i + dim / 2] * scale * norm[i + dim / 2];
    out[i] = static_cast<float>(a * cosine[i] - b * sine[i]);
    out[i + dim / 2] = static_cast<float>(b * cosine[i] + a * sine[i]);
  }
  return out;
}

bool Sees(const AttentionArgs& args, const AttentionSpan& span, int i, int token) {
  if (args.window > 0) {
    // A key among the added rows is at its row's position, a cached one at its index.
    const int key_position =
        token < span.cached ? token : args.positions[span.first_row + token - span.cached];
    if (key_position <= args.positions[span.first_row + i] - args.window) return false;
  }
  if (token < span.cached) return true;
  const int row = token - span.cached;
  if (span.mask == RowMask::kCausal) return row <= i;
  if (span.mask == RowMask::kFull) return true;
  return span.ancestors[size_t(i) * span.words + row / 64] >> (row % 64) & 1;
}

void AttendHead(const AttentionArgs& args, const AttentionSpan& span, int i, int head) {
  const KvLayer& cache = args.cache;
  const int kv_head = head / (args.query_heads / cache.kv_heads);
  const float* q =
      args.query + size_t(span.first_row + i) * args.query_stride + size_t(head) * cache.head_dim;
  const int tokens = span.cached + span.rows;
  const auto slot = [&](int t) {
    return int64_t{span.pages[t / kPageTokens]} * kPageTokens + t % kPageTokens;
  };
  std::vector<double> weight(tokens, -std::numeric_limits<double>::infinity());
  for (int t = 0; t < tokens; ++t) {
    if (!Sees(args, span, i, t)) continue;
    weight[t] = 0;
    for (int d = 0; d < cache.head_dim; ++d) {
      weight[t] += q[d] * Element(cache.dtype, cache.keys, KeyIndex(cache, slot(t), kv_head, d));
    }
    weight[t] *= args.scale;
  }
  const double peak = *std::max_element(weight.begin(), weight.end());
  double sum = 0;
  for (double& w : weight) sum += w = std::exp(w - peak);
  for (int d = 0; d < cache.head_dim; ++d) {
    double out = 0;
    for (int t = 0; t < tokens; ++t) {
      if (weight[t] == 0) continue;
      out += weight[t] * Element(cache.dtype, cache.values, ValueIndex(cache, slot(t), kv_head, d));
    }
    const size_t at = size_t(span.first_row + i) * args.query_heads + head;
    args.output[at * cache.head_dim + d] = static_cast<float>(out / sum);
  }
}

// All ids by falling value, ties by rising id.
std::vector<int32_t> Ranking(const float* values, int count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return values[a] > values[b]; });
  return ids;
}

// Which tokens a rule leaves in the race.
std::vector<bool> Kept(const float* logits, int count, const ChoiceRule& rule) {
  std::vector<bool> kept(count, true);
  if (rule.temperature <= 0 || !rule.truncates()) return kept;
  const std::vector<int32_t> ids = Ranking(logits, count);
  std::vector<double> mass(count);
  for (int x = 0; x < count; ++x) {
    mass[x] = std::exp((double{logits[x]} - logits[ids[0]]) / rule.temperature);
  }
  if (rule.top_k > 0 && rule.top_k < count) {
    for (int x = 0; x < count; ++x) kept[x] = logits[x] >= logits[ids[rule.top_k - 1]];
  }
  double total = 0;
  for (int x = 0; x < count; ++x) total += kept[x] ? mass[x] : 0;
  double likelier = 0;
  for (const int32_t x : ids) {
    if (!kept[x]) continue;
    if (rule.top_p < 1 && x != ids[0] && likelier >= rule.top_p * total) kept[x] = false;
    likelier += mass[x];
  }
  for (int x = 0; x < count; ++x) kept[x] = kept[x] && mass[x] >= rule.min_p;
  return kept;
}

}  // namespace

void Linear(const LinearArgs& args, ThreadPool&) {
  const int depth = args.weight.columns;
  const bool rounded = args.weight.dtype == DType::kInt8;
  for (int r = 0; r < args.rows; ++r) {
    const float* x = args.x + size_t(r) * depth;
    float largest = 0;
    for (int k = 0; k < depth; ++k) largest = std::max(largest, std::abs(x[k]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (int n = 0; n < args.weight.rows; ++n) {
      double sum = 0;
      for (int k = 0; k < depth; ++k) {
        const double input = rounded ? std::nearbyint(x[k] * inverse) : x[k];
        sum += input * Element(args.weight.dtype, args.weight.data, args.weight.offset(n, k));
      }
      if (rounded) sum *= double{largest} / 127 * args.weight.scales(n / kPanel)[n % kPanel];
      float& y = args.y[size_t(r) * args.y_stride + n];
      y = static_cast<float>(args.accumulate ? y + sum : sum);
    }
  }
}

void RmsNorm(const RmsNormArgs& args, ThreadPool&) {
  for (int r = 0; r < args.rows; ++r) {
    const float* x = args.x + size_t(r) * args.width;
    double squares = 0;
    for (int i = 0; i < args.width; ++i) squares += double{x[i]} * x[i];
    const double scale = 1.0 / std::sqrt(squares / args.width + args.epsilon);
    for (int i = 0; i < args.width; ++i) {
      args.y[size_t(r) * args.width + i] = static_cast<float>(x[i] * scale * args.weight[i]);
    }
  }
}

void Embed(const EmbedArgs& args, ThreadPool&) {
  for (int r = 0; r < args.rows; ++r) {
    for (int i = 0; i < args.width; ++i) {
      const size_t at = size_t(args.tokens[r]) * args.width + i;
      args.y[size_t(r) * args.width + i] = static_cast<float>(Element(args.dtype, args.table, at));
    }
  }
}

void Qkv(const QkvArgs& args, ThreadPool&) {
  const KvLayer& cache = args.cache;
  for (int r = 0; r < args.rows; ++r) {
    for (int h = 0; args.query != nullptr && h < args.query_heads; ++h) {
      float* q = args.query + size_t(r) * args.query_stride + size_t(h) * cache.head_dim;
      const std::vector<float> out = Rotated(q, args.query_norm, args, args.positions[r]);
      std::copy(out.begin(), out.end(), q);
    }
    for (int g = 0; g < cache.kv_heads; ++g) {
      const size_t at = size_t(r) * args.kv_stride + size_t(g) * cache.head_dim;
      const std::vector<float> k = Rotated(args.key + at, args.key_norm, args, args.positions[r]);
      for (int d = 0; d < cache.head_dim; ++d) {
        SetElement(cache.dtype, cache.keys, KeyIndex(cache, args.slots[r], g, d), k[d]);
        SetElement(cache.dtype, cache.values, ValueIndex(cache, args.slots[r], g, d),
                   args.value[at + d]);
      }
    }
  }
}

void Attention(const AttentionArgs& args, ThreadPool&) {
  for (int s = 0; s < args.span_count; ++s) {
    for (int i = 0; i < args.spans[s].rows; ++i) {
      for (int h = 0; h < args.query_heads; ++h) AttendHead(args, args.spans[s], i, h);
    }
  }
}

void SiluMul(const SiluMulArgs& args, ThreadPool&) {
  for (int r = 0; r < args.rows; ++r) {
    for (int i = 0; i < args.width; ++i) {
      const double gate = args.gate_up[size_t(r) * 2 * args.width + i];
      const double up = args.gate_up[(size_t(r) * 2 + 1) * args.width + i];
      args.y[size_t(r) * args.width + i] = static_cast<float>(gate / (1 + std::exp(-gate)) * up);
    }
  }
}

void Choose(const ChooseArgs& args, ThreadPool&) {
  for (int r = 0; r < args.rows; ++r) {
    const float* logits = args.logits + size_t(r) * args.vocabulary;
    const ChoiceRule& rule = args.rules[r];
    const std::vector<bool> kept = Kept(logits, args.vocabulary, rule);
    float best = -std::numeric_limits<float>::infinity();
    args.tokens[r] = -1;
    for (int x = 0; x < args.vocabulary; ++x) {
      if (!kept[x]) continue;
      float value = logits[x];
      if (rule.temperature > 0) {
        value = value / rule.temperature + KeyedGumbel(rule.seed, rule.position, x);
      }
      if (value > best) {
        best = value;
        args.tokens[r] = x;
      }
    }
  }
}

void TopK(const TopKArgs& args, ThreadPool&) {
  for (int r = 0; r < args.rows; ++r) {
    const float* logits = args.logits + size_t(r) * args.vocabulary;
    std::vector<float> values(logits, logits + args.vocabulary);
    if (args.coupling != nullptr && args.coupling[r].temperature > 0) {
      const ChoiceRule& rule = args.coupling[r];
      const std::vector<bool> kept = Kept(logits, args.vocabulary, rule);
      for (int x = 0; x < args.vocabulary; ++x) {
        values[x] = kept[x]
                        ? values[x] / rule.temperature + KeyedGumbel(rule.seed, rule.position, x)
                        : -std::numeric_limits<float>::infinity();
      }
    }
    const std::vector<int32_t> ids = Ranking(values.data(), args.vocabulary);
    double sum = 0;
    for (const float value : values) sum += std::exp(double{value} - values[ids[0]]);
    for (int k = 0; k < args.candidates; ++k) {
      args.tokens[size_t(r) * args.candidates + k] = ids[k];
      args.log_probs[size_t(r) * args.candidates + k] =
          static_cast<float>(double{values[ids[k]]} - values[ids[0]] - std::log(sum));
    }
  }
}

void KvMove(const KvMoveArgs& args, ThreadPool&) {
  const KvLayer& cache = args.cache;
  std::vector<float> staged;
  for (int i = 0; i < args.count; ++i) {
    for (int g = 0; g < cache.kv_heads; ++g) {
      for (int d = 0; d < cache.head_dim; ++d) {
        staged.push_back(static_cast<float>(
            Element(cache.dtype, cache.keys, KeyIndex(cache, args.sources[i], g, d))));
        staged.push_back(static_cast<float>(
            Element(cache.dtype, cache.values, ValueIndex(cache, args.sources[i], g, d))));
      }
    }
  }
  size_t next = 0;
  for (int i = 0; i < args.count; ++i) {
    for (int g = 0; g < cache.kv_heads; ++g) {
      for (int d = 0; d < cache.head_dim; ++d) {
        const int64_t slot = args.destinations[i];
        SetElement(cache.dtype, cache.keys, KeyIndex(cache, slot, g, d), staged[next++]);
        SetElement(cache.dtype, cache.values, ValueIndex(cache, slot, g, d), staged[next++]);
      }
    }
  }
}

}  // namespace bastion::kernels::reference
