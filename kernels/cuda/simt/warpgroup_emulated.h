// The primitives of warpgroup.h in the emulator (emulator_warpgroup.cc). Only warpgroup.h includes
// this file.
//
// The emulator is strict: a copy fills its tile with NaNs when it starts, and writes it only when a
// thread waits for its barrier. Products read their operands, those in registers too, only when the
// warpgroup waits for them. So a tile that is read too early, or released too early, shows in the
// result.
#ifndef BASTION_KERNELS_CUDA_SIMT_WARPGROUP_EMULATED_H_
#define BASTION_KERNELS_CUDA_SIMT_WARPGROUP_EMULATED_H_

#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/cuda/simt/simt.h"

#define SIMT_WARPGROUPS 1
#define SIMT_TENSOR_ARGS const

namespace bastion::kernels::cuda::simt {

void InitBarrier(uint32_t barrier, int arrivals);
inline void PublishBarriers() {}
void PublishStores();
template <int count>
void TakeRegisters() {}
template <int count>
void GiveRegisters() {}
void Arrive(uint32_t barrier);
void ArriveAndExpect(uint32_t barrier, int bytes);
void WaitForPhase(uint32_t barrier, uint32_t parity);

void CopyTileOnce(uint32_t to, const TensorMap& map, uint32_t barrier, Corner2 at);
void CopyTileOnce(uint32_t to, const TensorMap& map, uint32_t barrier, Corner4 at);
inline void CopyTile(uint32_t to, const TensorMap& map, uint32_t barrier, Corner2 at) {
  CopyTileOnce(to, map, barrier, at);
}

using Operand = uint32_t;  // The address of the first row, and 32 bytes for each 16 columns.
inline Operand OperandAt(uint32_t rows) { return rows; }
inline Operand Part(Operand operand, int part) { return operand + 32 * part; }

struct Transposed {
  uint32_t rows;  // The address of the first of 64 rows.
};
inline Transposed TransposedAt(uint32_t rows) { return {rows}; }
inline Transposed Part(Transposed operand, int part) { return {operand.rows + 16 * 128 * part}; }

void StartProducts();
void EndProducts();
void FinishProducts(int pending);
template <int Pending>
void WaitProducts() {
  FinishProducts(Pending);
}
// The operands of a product. `held` is not null if the thread has its part of x in registers.
struct Factors {
  int wide;
  Operand x, y;
  const uint32_t* held = nullptr;
  bool transposed = false;
};
void QueueProduct(float* d, const Factors& factors);
template <int wide>
void WarpgroupMultiplyAdd(float (&d)[wide][4], Operand x, Operand y) {
  QueueProduct(&d[0][0], {wide, x, y});
}
inline void WarpgroupMultiplyAdd(float (&d)[8][4], const uint32_t (&x)[4], Operand y) {
  QueueProduct(&d[0][0], {8, 0, y, x});
}
inline void WarpgroupMultiplyAdd(float (&d)[8][4], const uint32_t (&x)[4], Transposed y) {
  QueueProduct(&d[0][0], {8, 0, y.rows, x, true});
}

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_WARPGROUP_EMULATED_H_
