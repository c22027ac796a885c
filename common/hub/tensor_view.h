// TensorView: a tensor in a mapped file, or a tensor to be written. Plain data. It does not own the
// bytes: the file or the caller does.
#ifndef BASTION_COMMON_HUB_TENSOR_VIEW_H_
#define BASTION_COMMON_HUB_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/block_format.h"
#include "common/base/dtype.h"

namespace bastion::hub {

struct TensorView {
  DType dtype = DType::kF32;  // Not used for blocks.
  std::vector<int64_t> shape;
  const void* data = nullptr;  // Row-major, little-endian, aligned to its element.
  size_t bytes = 0;            // Product of the shape times the element size, or of all blocks.
  BlockFormat blocks = BlockFormat::kNone;  // Each row consists of whole blocks.
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_TENSOR_VIEW_H_
