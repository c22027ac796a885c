// Commits the walked paths in one launch: moves cached keys and values in all layers and gathers
// the features. This file also has the kernel that raises a flag for the host.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kFeatureBlocks = 16;  // Blocks per span. Each copies every 16th row.
constexpr int kBatch = 8;           // Rows that a thread holds at a time.

// 16 bytes at the same place in the key or the value of every token, for one kv head.
struct Column {
  char* base = nullptr;     // The column of the first token of page 0.
  int64_t page_bytes = 0;   // Distance between pages.
  int64_t token_bytes = 0;  // Distance between tokens of a page.

  [[nodiscard]] SIMT_DEVICE char* At(int64_t slot) const {
    return base + slot / kPageTokens * page_bytes + slot % kPageTokens * token_bytes;
  }
};

// Copies the column of row path[k] to row k + 1, for k = 0 … length − 1. The rows of a path
// increase, so path[k] >= k + 1. When row k + 1 is written, the rows that are still to be read are
// path[j] for j > k, and path[j] >= j + 1 > k + 1. With increasing k, no row is therefore
// overwritten before it is read, regardless of the batch size. No other thread accesses this
// column.
SIMT_DEVICE void MoveColumn(const Column& column, const int32_t* path, int length,
                            const int64_t* slots) {
  for (int first = 0; first < length; first += kBatch) {
    Bytes16 held[kBatch];
    SIMT_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      const int k = first + i;
      if (k < length && path[k] != k + 1) held[i] = LoadBytes16(column.At(slots[path[k]]));
    }
    SIMT_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      const int k = first + i;
      if (k < length && path[k] != k + 1) StoreBytes16(column.At(slots[k + 1]), held[i]);
    }
  }
}

// Moves the keys and values of one span in one layer, for all heads.
SIMT_DEVICE void MoveLayer(const CommitArgs& args, int span, const DeviceKvLayer& layer) {
  const int begin = args.rows.first_rows[span];
  const int element = args.dtype == DType::kF32 ? 4 : 2;
  const int columns = args.head_dim * element / 16;  // Columns of a head's keys or values.
  const int64_t head_bytes = static_cast<int64_t>(kPageTokens) * columns * 16;
  for (int i = ThreadIndex(); i < 2 * args.kv_heads * columns; i += BlockThreads()) {
    const int head = i / columns % args.kv_heads, side = i / columns / args.kv_heads;
    Column column;
    column.base = static_cast<char*>(side == 0 ? layer.keys : layer.values) + head * head_bytes +
                  i % columns * 16;
    column.page_bytes = args.kv_heads * head_bytes;
    column.token_bytes = static_cast<int64_t>(columns) * 16;
    MoveColumn(column, args.paths + begin, args.results[span].path_length, args.rows.slots + begin);
  }
}

// Copies the features of the span's root and accepted nodes: block `part` of kFeatureBlocks copies
// every kFeatureBlocks-th row.
SIMT_DEVICE void GatherFeatures(const CommitArgs& args, int span, int part) {
  const WalkResult result = args.results[span];
  const int begin = args.rows.first_rows[span];
  const int64_t bytes =
      static_cast<int64_t>(args.feature_width) * (args.dtype == DType::kF32 ? 4 : 2);
  for (int k = part; k <= result.path_length; k += kFeatureBlocks) {
    const int row = begin + (k == 0 ? 0 : args.paths[begin + k - 1]);
    const char* from = static_cast<const char*>(args.features) + row * bytes;
    char* to = static_cast<char*>(args.kept_features) + (result.first_kept + k) * bytes;
    for (int64_t i = int64_t{16} * ThreadIndex(); i < bytes; i += 16 * kThreads) {
      StoreBytes16(to + i, LoadBytes16(from + i));
    }
  }
}

// Block (span, y) moves layer y, or copies part y − layer_count of the features.
SIMT_KERNEL(kThreads, 2)
void CommitKernel(CommitArgs args) {
  BeginKernel();
  const int span = Block().x, y = Block().y;
  if (span >= args.rows.used[1]) return;
  if (y < args.layer_count) {
    MoveLayer(args, span, args.layers[y]);
  } else {
    GatherFeatures(args, span, y - args.layer_count);
  }
}

SIMT_KERNEL(kWarp, 1)
void RaiseFlagKernel(RaiseFlagArgs args) {
  BeginKernel();
  if (ThreadIndex() != 0) return;
  FenceSystem();
  StoreForHost(args.flag, *args.value);
}

}  // namespace

void Commit(const CommitArgs& args, Stream& stream) {
  const int blocks = args.layer_count + (args.feature_width > 0 ? kFeatureBlocks : 0);
  Launch(stream, CommitKernel, {{args.rows.span_capacity, blocks}, kThreads}, args);
}

void RaiseFlag(const RaiseFlagArgs& args, Stream& stream) {
  Launch(stream, RaiseFlagKernel, {{1}, kWarp}, args);
}

}  // namespace bastion::kernels::cuda
