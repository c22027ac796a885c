// A second copy of a step's features in device memory that a drafter on the same device has mapped.
// This is the device side of common/shm/device_ring.h. Thread-compatible.
#ifndef BASTION_VERIFIER_SERVICE_FEATURES_SHARED_FEATURES_H_
#define BASTION_VERIFIER_SERVICE_FEATURES_SHARED_FEATURES_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "common/shm/device_ring.h"
#include "engine/model/device.h"

namespace bastion::verifier {

class SharedFeatures {
 public:
  SharedFeatures() = default;  // No memory: Reserve always returns null.
  // Features of `type`. Returns the errors of Device::AllocateShared.
  [[nodiscard]] static absl::StatusOr<SharedFeatures> Create(nn::Device& device, uint64_t bytes,
                                                             DType type);

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
  nn::Buffer memory_;
  std::shared_ptr<wire::DeviceRingWriter> writer_;
  std::optional<uint64_t> position_;
  bool published_ = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_FEATURES_SHARED_FEATURES_H_
