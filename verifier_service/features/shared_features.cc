#include "verifier_service/features/shared_features.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::verifier {

absl::StatusOr<SharedFeatures> SharedFeatures::Create(nn::Device& device, uint64_t bytes,
                                                      DType type) {
  const uint64_t aligned = bytes / wire::kDeviceAlignment * wire::kDeviceAlignment;
  ASSIGN_OR_RETURN(const nn::SharedMemory memory,
                   device.AllocateShared(aligned, "features for a drafter"));
  SharedFeatures features;
  features.memory_ = memory.buffer;
  ASSIGN_OR_RETURN(features.writer_,
                   wire::DeviceRingWriter::Create(wire::Descriptor(memory.descriptor), aligned,
                                                  device.MakeReader(type)->uuid));
  return features;
}

char* SharedFeatures::Reserve(uint64_t bytes) {
  published_ = false;
  position_.reset();
  if (writer_ == nullptr || bytes == 0 || !writer_->has_reader()) return nullptr;
  position_ = writer_->Reserve(bytes);
  if (!position_) return nullptr;
  return memory_.as<char>() + *position_ % writer_->capacity();
}

void SharedFeatures::Publish(uint64_t bytes) {
  CHECK(reserved()) << "Publish() without a successful Reserve()";
  writer_->Keep(bytes);
  published_ = true;
}

}  // namespace bastion::verifier
