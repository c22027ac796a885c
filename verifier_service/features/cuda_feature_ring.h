// The features that a step keeps, once more in memory that a drafter on the same GPU has mapped:
// the device side of common/shm/device_ring.h.
#ifndef BASTION_VERIFIER_SERVICE_FEATURES_CUDA_FEATURE_RING_H_
#define BASTION_VERIFIER_SERVICE_FEATURES_CUDA_FEATURE_RING_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "common/shm/device_ring.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::verifier {

class CudaFeatureRing {
 public:
  CudaFeatureRing() = default;  // None: there is never room.
  // Errors: Memory::OnDeviceToShare, ExportDescriptor.
  [[nodiscard]] static absl::StatusOr<CudaFeatureRing> Create(uint64_t bytes,
                                                              const std::string& uuid);

  // Where the device may write `bytes` of this step, or null: nobody reads the ring, or they are
  // too many for it. Until the next Reserve.
  [[nodiscard]] char* Reserve(uint64_t bytes);
  // Whether the last step has room.
  [[nodiscard]] bool reserved() const { return position_.has_value(); }
  // The device has written the first `bytes` of it.
  void Keep(uint64_t bytes);
  // What was kept of the last step begins here.
  [[nodiscard]] std::optional<uint64_t> position() const {
    return kept_ ? position_ : std::nullopt;
  }

  [[nodiscard]] const std::shared_ptr<wire::DeviceRingWriter>& writer() const { return writer_; }

 private:
  kernels::cuda::Memory memory_;
  std::shared_ptr<wire::DeviceRingWriter> writer_;
  std::optional<uint64_t> position_;
  bool kept_ = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_FEATURES_CUDA_FEATURE_RING_H_
