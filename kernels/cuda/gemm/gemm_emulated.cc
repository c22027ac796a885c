#include <map>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/gemm_table.h"

namespace bastion::kernels::cuda {
namespace {

constexpr char kDevice[] = "emulator";

float Element(DType dtype, const void* matrix, int64_t at) {
  return dtype == DType::kF32 ? static_cast<const float*>(matrix)[at]
                              : Bf16ToFloat(static_cast<const uint16_t*>(matrix)[at]);
}

// The emulator's Gemm. It has a single algorithm, so Prepare only records the shape, and Run checks
// that the shape was prepared.
class EmulatedGemm final : public Gemm {
 public:
  absl::Status Load(const std::string& path) override {
    ASSIGN_OR_RETURN(std::vector<GemmEntry> entries, ReadGemmTable(path));
    others_.clear();
    for (const GemmEntry& entry : entries) {
      if (entry.device == kDevice) {
        prepared_.insert({entry.shape, entry});
      } else {
        others_.push_back(entry);
      }
    }
    return absl::OkStatus();
  }
  absl::Status Save(const std::string& path) const override {
    std::vector<GemmEntry> entries = others_;
    for (const auto& [shape, entry] : prepared_) entries.push_back(entry);
    return WriteGemmTable(path, entries);
  }

  absl::Status Prepare(const GemmArgs& args, absl::Span<const void* const> weights,
                       Stream& /*stream*/) override {
    CHECK(!weights.empty()) << "Prepare needs at least one weight matrix";
    if (args.shape.dtype != DType::kF32 && args.shape.dtype != DType::kBF16) {
      return absl::InvalidArgumentError(
          absl::StrCat("a GPU matrix product needs bf16 or fp32; got ", Name(args.shape.dtype)));
    }
    GemmEntry entry;
    entry.device = kDevice;
    entry.shape = args.shape;
    prepared_.insert({args.shape, entry});
    return absl::OkStatus();
  }
  void Run(const GemmArgs& args, Stream& stream) override {
    CHECK(prepared_.contains(args.shape)) << "call Gemm::Prepare before Run for this shape";
    stream.AddHostWork([args] { Multiply(args); });
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

  std::map<GemmShape, GemmEntry> prepared_;
  std::vector<GemmEntry> others_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create() { return std::make_unique<EmulatedGemm>(); }

}  // namespace bastion::kernels::cuda
