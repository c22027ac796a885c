// A second copy of a step's features in GPU memory that a drafter on the same GPU has mapped. This
// is the device side of common/shm/device_ring.h. Thread-compatible.
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
  CudaFeatureRing() = default;  // No ring: Reserve always returns null.
  // Returns the errors of Memory::OnDeviceShareable and Memory::ExportDescriptor.
  [[nodiscard]] static absl::StatusOr<CudaFeatureRing> Create(uint64_t bytes,
                                                              const std::string& uuid);

  // Memory for `bytes` bytes of this step, which the device may write until the next Reserve. Null
  // if no drafter reads the ring or if the bytes do not fit.
  [[nodiscard]] char* Reserve(uint64_t bytes);
  // True if the last Reserve succeeded.
  [[nodiscard]] bool reserved() const { return position_.has_value(); }
  // Publishes the first `bytes` of the reserved memory, which the device has written.
  void Publish(uint64_t bytes);
  // The position of the last step's published bytes, if there are any.
  [[nodiscard]] std::optional<uint64_t> position() const {
    return published_ ? position_ : std::nullopt;
  }

  [[nodiscard]] const std::shared_ptr<wire::DeviceRingWriter>& writer() const { return writer_; }

 private:
  kernels::cuda::Memory memory_;
  std::shared_ptr<wire::DeviceRingWriter> writer_;
  std::optional<uint64_t> position_;
  bool published_ = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_FEATURES_CUDA_FEATURE_RING_H_
