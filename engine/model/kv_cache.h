// Paged KV cache: one pool of pages for all sequences and layers.
//
// A page number refers to kPageTokens tokens in every layer, so one page table per sequence is
// enough for all layers. Layout of a page: kernels/ops/types.h. Thread-compatible.
#ifndef BASTION_ENGINE_MODEL_KV_CACHE_H_
#define BASTION_ENGINE_MODEL_KV_CACHE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/buffer.h"
#include "engine/model/page_pool.h"
#include "kernels/ops/types.h"

namespace bastion::nn {

class Device;

struct KvShape {
  int layers = 0;    // L
  int kv_heads = 0;  // G
  int head_dim = 0;  // D
  DType dtype = DType::kF32;
};

// A page pool and the memory of its pages. There is one page more than the pool assigns, for the
// padding rows of a step.
class KvCache : public PagePool {
 public:
  // RESOURCE_EXHAUSTED if the device has too little memory.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<KvCache>> Create(Device& device,
                                                                       const KvShape& shape,
                                                                       int pages);

  [[nodiscard]] const KvShape& shape() const { return shape_; }
  [[nodiscard]] const kernels::KvLayer& layer(int index) const { return layers_[index]; }
  // [L] A copy of the layers' descriptions in the memory of the device.
  [[nodiscard]] const kernels::KvLayer* table() const { return table_.as<kernels::KvLayer>(); }

 private:
  KvCache(const KvShape& shape, int pages) : PagePool(pages), shape_(shape) {}

  KvShape shape_;
  std::vector<Buffer> memory_;            // 2 L
  std::vector<kernels::KvLayer> layers_;  // L
  Buffer table_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_KV_CACHE_H_
