// The primitives of warpgroup.h as PTX (PTX ISA 8; sm_90a). Only warpgroup.h includes this file.
#ifndef BASTION_KERNELS_CUDA_SIMT_WARPGROUP_NVCC_H_
#define BASTION_KERNELS_CUDA_SIMT_WARPGROUP_NVCC_H_

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SIMT_WARPGROUPS 1
#else
#define SIMT_WARPGROUPS 0
#endif
// Arguments that contain a TensorMap: the copies read it where the launch has put it.
#define SIMT_TENSOR_ARGS const __grid_constant__

namespace bastion::kernels::cuda::simt {

// Phase barriers. `barrier` is an address in shared memory, a multiple of 8. One thread initializes
// all of a block, and then publishes them; the others use them after SyncBlock().
SIMT_DEVICE void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
               : "memory");
}
SIMT_DEVICE void PublishBarriers() {
  asm volatile(
      "fence.mbarrier_init.release.cluster;\n"
      "fence.proxy.async.shared::cta;\n" ::
          : "memory");
}
SIMT_DEVICE void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// Arrives, and announces bytes of copies.
SIMT_DEVICE void ArriveAndExpect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Waits until the phase of this parity has ended. Until the first phase ends, the one before it,
// with parity 1, counts as the last that ended.
SIMT_DEVICE void WaitForPhase(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1, 10000000;\n"
      "@!ended bra again_%=;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// The products of a warpgroup read what its threads have stored in shared memory. All its threads
// call this after they stored. REQUIRES: it is one of the first two of the block.
SIMT_DEVICE void PublishStores() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  if (ThreadIndex() < kWarpgroup) {
    asm volatile("bar.sync 1, 128;\n" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 128;\n" ::: "memory");
  }
}

// The warps of a warpgroup take registers that another one has given up, so that a thread has
// `count`, a multiple of 8. All threads of a warpgroup call this.
template <int count>
SIMT_DEVICE void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(count));
}
template <int count>
SIMT_DEVICE void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(count));
}

// Starts the copy of a tile to `to` in shared memory. Its bytes arrive at `barrier`. The tile
// begins at element (x, y), or (x, y, z, w) if the tensor has four dimensions. With `Once`, it does
// not stay in the L2 cache.
SIMT_DEVICE void CopyTile(uint32_t to, const TensorMap& map, uint32_t barrier, Corner2 at) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(to),
      "l"(&map), "r"(at.x), "r"(at.y), "r"(barrier)
      : "memory");
}
SIMT_DEVICE uint64_t ReadOncePolicy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}
SIMT_DEVICE void CopyTileOnce(uint32_t to, const TensorMap& map, uint32_t barrier, Corner2 at) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(to),
      "l"(&map), "r"(at.x), "r"(at.y), "r"(barrier), "l"(ReadOncePolicy())
      : "memory");
}
SIMT_DEVICE void CopyTileOnce(uint32_t to, const TensorMap& map, uint32_t barrier, Corner4 at) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;\n" ::"r"(to),
      "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w), "r"(barrier), "l"(ReadOncePolicy())
      : "memory");
}

// A group of rows of a tile, as an operand of products: 64 of `a`, or all of `b`. The number holds
// the address and the distance of 8 rows (1,024 bytes), both in units of 16 bytes, and the order of
// the pieces (1 in the highest bits: 128 bytes).
using Operand = uint64_t;
SIMT_DEVICE Operand OperandAt(uint32_t rows) {
  return (rows & 0x3FFFF) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}
// Columns [16 part, 16 part + 16) of the operand's 64.
SIMT_DEVICE Operand Part(Operand operand, int part) { return operand + 2 * part; }

// A tile of 64 rows, as an operand whose columns are those of d. A product reads 16 of the rows.
// The number is that of an Operand, with the distance of the next 64 columns, which no product
// reads.
struct Transposed {
  uint64_t rows;
};
SIMT_DEVICE Transposed TransposedAt(uint32_t rows) {
  return {(rows & 0x3FFFF) >> 4 | uint64_t{512} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62};
}
// Rows [16 part, 16 part + 16).
SIMT_DEVICE Transposed Part(Transposed operand, int part) { return {operand.rows + 128 * part}; }

// Products of a warpgroup: all its threads call these functions. Each warp has 16 rows of `a`. A
// lane holds elements of d for each 8 rows of `b`, as in MatrixMultiplyAdd. StartProducts comes
// before the first of a group of products, EndProducts after the last.
SIMT_DEVICE void StartProducts() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
SIMT_DEVICE void EndProducts() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
// Waits until at most `Pending` groups are unfinished.
template <int Pending>
SIMT_DEVICE void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
}

#define BASTION_D4 "%0, %1, %2, %3"
#define BASTION_D8 BASTION_D4 ", %4, %5, %6, %7"
#define BASTION_D16 BASTION_D8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define BASTION_D32   \
  BASTION_D16         \
  ", %16, %17, %18, " \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define BASTION_D64                                                                   \
  BASTION_D32                                                                         \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define BASTION_SUMS1(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define BASTION_SUMS2(i) BASTION_SUMS1(i), BASTION_SUMS1(i + 1)
#define BASTION_SUMS4(i) BASTION_SUMS2(i), BASTION_SUMS2(i + 2)
#define BASTION_SUMS8(i) BASTION_SUMS4(i), BASTION_SUMS4(i + 4)
#define BASTION_SUMS16(i) BASTION_SUMS8(i), BASTION_SUMS8(i + 8)
// The last numbers of the instruction: d is added to, no sign changes, no operand is transposed.
#define BASTION_WARPGROUP_PRODUCT(wide, rows, values, a, b)                         \
  SIMT_DEVICE void WarpgroupMultiplyAdd(float(&d)[wide][4], Operand x, Operand y) { \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" rows                           \
                 "k16.f32.bf16.bf16 "                                               \
                 "{" values "}, " a ", " b ", 1, 1, 1, 0, 0;\n"                     \
                 : BASTION_SUMS##wide(0)                                            \
                 : "l"(x), "l"(y));                                                 \
  }
BASTION_WARPGROUP_PRODUCT(1, "8", BASTION_D4, "%4", "%5")
BASTION_WARPGROUP_PRODUCT(2, "16", BASTION_D8, "%8", "%9")
BASTION_WARPGROUP_PRODUCT(4, "32", BASTION_D16, "%16", "%17")
BASTION_WARPGROUP_PRODUCT(8, "64", BASTION_D32, "%32", "%33")
BASTION_WARPGROUP_PRODUCT(16, "128", BASTION_D64, "%64", "%65")
// The same with 64 rows of `b`, and `a` in registers: each warp has its 16 rows as in
// MatrixMultiplyAdd. They must not change until the product is waited for.
#define BASTION_HELD_PRODUCT(operand, value, transposed)                                     \
  SIMT_DEVICE void WarpgroupMultiplyAdd(float(&d)[8][4], const uint32_t(&x)[4], operand y) { \
    asm volatile(                                                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "                              \
        "{" BASTION_D32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, " transposed ";\n"           \
        : BASTION_SUMS8(0)                                                                   \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(value));                           \
  }
BASTION_HELD_PRODUCT(Operand, y, "0")
BASTION_HELD_PRODUCT(Transposed, y.rows, "1")
#undef BASTION_HELD_PRODUCT
#undef BASTION_WARPGROUP_PRODUCT
#undef BASTION_SUMS16
#undef BASTION_SUMS8
#undef BASTION_SUMS4
#undef BASTION_SUMS2
#undef BASTION_SUMS1
#undef BASTION_D64
#undef BASTION_D32
#undef BASTION_D16
#undef BASTION_D8
#undef BASTION_D4

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_WARPGROUP_NVCC_H_
