// Applies the RMS norm, if there is one, and the rotary embedding to queries and keys, and writes
// keys and values to the paged cache, in one pass over the rows. Also moves cached tokens.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/qkv.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <cmath>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int kMaxHeadDim = 512;
inline constexpr int kGrainRows = 2;  // Rows. Fewer are not worth another thread.

// Half of a fully rotated head is a multiple of 8.
using Part = hn::CappedTag<float, 8>;
inline constexpr int kRotated = hn::MaxLanes(Part());

// The factor of the RMS norm of a head.
float NormScale(const float* x, const QkvArgs& args) {
  const int dim = args.cache.head_dim;
  return 1.0f / std::sqrt(SumOfSquares(x, dim) / static_cast<float>(dim) + args.epsilon);
}

// out = rope(x), or rope(x * scale * weight) with kNorm. Rotates the pairs (i, i + rotated/2).
template <bool kNorm>
void Rotate(const float* x, const float* weight, const QkvArgs& args, int position, float* out) {
  const int dim = args.cache.head_dim, rotated = args.rotated(), half = rotated / 2;
  const float scale = kNorm ? NormScale(x, args) : 1.0f;
  const float* cosine = args.cosine_sine + size_t(position) * rotated;
  const float* sine = cosine + half;
  const auto normed = [&](int i) { return kNorm ? x[i] * scale * weight[i] : x[i]; };
  int i = 0;
  for (; i + kRotated <= half; i += kRotated) {
    const Part part;
    const auto at = [part](const float* p) HWY_ATTR { return hn::LoadU(part, p); };
    auto a = at(x + i), b = at(x + i + half);
    if constexpr (kNorm) {
      const auto norm = hn::Set(part, scale);
      a = hn::Mul(hn::Mul(a, norm), at(weight + i));
      b = hn::Mul(hn::Mul(b, norm), at(weight + i + half));
    }
    const auto c = at(cosine + i), s = at(sine + i);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), part, out + i);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), part, out + i + half);
  }
  for (; i < half; ++i) {
    const float a = normed(i), b = normed(i + half);
    out[i] = a * cosine[i] - b * sine[i];
    out[i + half] = b * cosine[i] + a * sine[i];
  }
  for (i = rotated; i < dim; ++i) out[i] = normed(i);
}

// out = rope(norm(x) * weight), or rope(x) without a weight.
void NormAndRotate(const float* x, const float* weight, const QkvArgs& args, int position,
                   float* out) {
  if (weight != nullptr) return Rotate<true>(x, weight, args, position, out);
  Rotate<false>(x, weight, args, position, out);
}

template <typename KV>
void StoreToken(const QkvArgs& args, int head, int64_t slot, const float* key, const float* value) {
  const int dim = args.cache.head_dim;
  const size_t page =
      size_t(slot / kPageTokens) * args.cache.page_elements() + size_t(head) * dim * kPageTokens;
  const int offset = static_cast<int>(slot % kPageTokens);
  KV* keys = static_cast<KV*>(args.cache.keys) + page + offset;
  for (int d = 0; d < dim; ++d) StoreFloat(key[d], keys + size_t(d) * kPageTokens);
  KV* values = static_cast<KV*>(args.cache.values) + page + size_t(offset) * dim;
  for (int d = 0; d < dim; ++d) StoreFloat(value[d], values + d);
}

template <typename KV>
void QkvRow(const QkvArgs& args, int64_t row) {
  const int dim = args.cache.head_dim;
  const int position = args.positions[row];
  alignas(64) float rotated[kMaxHeadDim];
  for (int h = 0; args.query != nullptr && h < args.query_heads; ++h) {
    float* q = args.query + row * args.query_stride + h * dim;
    NormAndRotate(q, args.query_norm, args, position, rotated);
    std::copy_n(rotated, dim, q);
  }
  for (int g = 0; g < args.cache.kv_heads; ++g) {
    NormAndRotate(args.key + row * args.kv_stride + g * dim, args.key_norm, args, position,
                  rotated);
    StoreToken<KV>(args, g, args.slots[row], rotated, args.value + row * args.kv_stride + g * dim);
  }
}

// Calls visit(element) for the key and value elements of one token: for each head, the D elements
// of the key, then the D elements of the value.
template <typename KV, typename Visit>
void VisitToken(const KvLayer& cache, int64_t slot, Visit visit) {
  const int dim = cache.head_dim;
  const int offset = static_cast<int>(slot % kPageTokens);
  for (int g = 0; g < cache.kv_heads; ++g) {
    const size_t page =
        size_t(slot / kPageTokens) * cache.page_elements() + size_t(g) * dim * kPageTokens;
    KV* keys = static_cast<KV*>(cache.keys) + page + offset;
    KV* values = static_cast<KV*>(cache.values) + page + size_t(offset) * dim;
    for (int d = 0; d < dim; ++d) visit(keys[size_t(d) * kPageTokens]);
    for (int d = 0; d < dim; ++d) visit(values[d]);
  }
}

// Reads all tokens before it writes any, because sources and destinations may overlap.
template <typename KV>
void MoveTokens(const KvMoveArgs& args) {
  static thread_local std::vector<KV> staged;
  staged.clear();
  for (int i = 0; i < args.count; ++i) {
    VisitToken<KV>(args.cache, args.sources[i], [&](KV& element) { staged.push_back(element); });
  }
  const KV* next = staged.data();
  for (int i = 0; i < args.count; ++i) {
    VisitToken<KV>(args.cache, args.destinations[i], [&](KV& element) { element = *next++; });
  }
}

}  // namespace

void Qkv(const QkvArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, kGrainRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (args.cache.dtype == DType::kF32) {
        QkvRow<float>(args, row);
      } else {
        QkvRow<uint16_t>(args, row);
      }
    }
  });
}

void KvMove(const KvMoveArgs& args, ThreadPool&) {
  if (args.cache.dtype == DType::kF32) {
    MoveTokens<float>(args);
  } else {
    MoveTokens<uint16_t>(args);
  }
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Qkv);
HWY_EXPORT(KvMove);
void Qkv(const QkvArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Qkv)(args, pool); }
void KvMove(const KvMoveArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(KvMove)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
