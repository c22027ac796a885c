#include "tools/inprocess/local_features.h"

#include <fcntl.h>

#include <utility>

#include "common/base/status.h"

namespace bastion {
namespace {

wire::Descriptor Duplicate(int descriptor) {
  return wire::Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

absl::Status LocalFeatures::ReadRing(const DeviceReader& reader) {
  auto writer = engine_->feature_ring();
  if (writer == nullptr || reader.type != engine_->features().type()) return absl::OkStatus();
  const auto [memory, counters] = writer->descriptors();
  ASSIGN_OR_RETURN(ring_, wire::DeviceRingReader::Import({Duplicate(memory), Duplicate(counters),
                                                          writer->capacity(), writer->uuid()},
                                                         reader));
  reading_ = writer->AddReader();
  writer_ = std::move(writer);
  return absl::OkStatus();
}

absl::StatusOr<Features> LocalFeatures::Read(const FeatureRange& range, absl::Duration timeout) {
  verifier::FeatureStore& store = engine_->features();
  if (ring_ == nullptr || !range.may_be_on_device) return store.Read(range, timeout);
  ASSIGN_OR_RETURN(const verifier::FeatureStore::Located located,
                   store.Locate(range.sequence, range.first, range.first + range.count));
  if (located.rows == 0) return store.Read(range, timeout);
  return Features{located.width, located.type, /*bytes=*/"", located.next,
                  DeviceRows{ring_, located.position, located.rows}};
}

}  // namespace bastion
