#include "verifier_service/features/cuda_feature_ring.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::verifier {

absl::StatusOr<CudaFeatureRing> CudaFeatureRing::Create(uint64_t bytes, const std::string& uuid) {
  const uint64_t aligned = bytes / wire::kDeviceAlignment * wire::kDeviceAlignment;
  CudaFeatureRing ring;
  ASSIGN_OR_RETURN(ring.memory_,
                   kernels::cuda::Memory::OnDeviceShareable(aligned, "features for a drafter"));
  ASSIGN_OR_RETURN(const int descriptor, ring.memory_.ExportDescriptor());
  ASSIGN_OR_RETURN(ring.writer_,
                   wire::DeviceRingWriter::Create(wire::Descriptor(descriptor), aligned, uuid));
  return ring;
}

char* CudaFeatureRing::Reserve(uint64_t bytes) {
  published_ = false;
  position_.reset();
  if (writer_ == nullptr || bytes == 0 || !writer_->has_reader()) return nullptr;
  position_ = writer_->Reserve(bytes);
  if (!position_) return nullptr;
  return memory_.as<char>() + *position_ % writer_->capacity();
}

void CudaFeatureRing::Publish(uint64_t bytes) {
  CHECK(reserved()) << "Publish() without a successful Reserve()";
  writer_->Keep(bytes);
  published_ = true;
}

}  // namespace bastion::verifier
