#include "kernels/cuda/gemm.h"

namespace bastion::kernels::cuda {
namespace {

float Element(DType dtype, const void* matrix, int64_t at) {
  return dtype == DType::kF32 ? static_cast<const float*>(matrix)[at]
                              : Bf16ToFloat(static_cast<const uint16_t*>(matrix)[at]);
}

class EmulatedGemm final : public Gemm {
 public:
  absl::Status Load(const std::string& /*path*/) override { return absl::OkStatus(); }
  absl::Status Save(const std::string& /*path*/) const override { return absl::OkStatus(); }
  absl::Status Prepare(const GemmArgs& /*args*/, absl::Span<const void* const> /*weights*/,
                       Stream& /*stream*/) override {
    return absl::OkStatus();
  }
  void Run(const GemmArgs& args, Stream& stream) override {
    stream.Do([args] { Multiply(args); });
  }

 private:
  static void Multiply(const GemmArgs& args) {
    const GemmShape& shape = args.shape;
    for (int64_t n = 0; n < shape.columns; ++n) {
      for (int64_t r = 0; r < shape.rows; ++r) {
        float sum = 0;
        for (int64_t k = 0; k < shape.depth; ++k) {
          sum += Element(shape.dtype, args.x, r * shape.depth + k) *
                 Element(shape.dtype, args.weight, n * shape.depth + k);
        }
        float& y = args.y[r * shape.columns + n];
        y = shape.accumulate ? y + sum : sum;
      }
    }
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create() { return std::make_unique<EmulatedGemm>(); }

}  // namespace bastion::kernels::cuda
