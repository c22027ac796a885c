#include "verifier_service/features/cuda_feature_ring.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::verifier {

absl::StatusOr<CudaFeatureRing> CudaFeatureRing::Create(uint64_t bytes, const std::string& uuid) {
  const uint64_t whole = bytes / wire::kDeviceAlignment * wire::kDeviceAlignment;
  CudaFeatureRing ring;
  ASSIGN_OR_RETURN(ring.memory_,
                   kernels::cuda::Memory::OnDeviceShareable(whole, "features for a drafter"));
  ASSIGN_OR_RETURN(const int descriptor, ring.memory_.ExportDescriptor());
  ASSIGN_OR_RETURN(ring.writer_,
                   wire::DeviceRingWriter::Create(wire::Descriptor(descriptor), whole, uuid));
  return ring;
}

char* CudaFeatureRing::Reserve(uint64_t bytes) {
  kept_ = false;
  position_.reset();
  if (writer_ == nullptr || bytes == 0 || !writer_->has_reader()) return nullptr;
  position_ = writer_->Reserve(bytes);
  if (!position_) return nullptr;
  return memory_.as<char>() + *position_ % writer_->capacity();
}

void CudaFeatureRing::Keep(uint64_t bytes) {
  CHECK(reserved()) << "nothing is reserved";
  writer_->Keep(bytes);
  kept_ = true;
}

}  // namespace bastion::verifier
