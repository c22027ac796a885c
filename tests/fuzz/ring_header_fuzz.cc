// The headers of messages in shared memory, which the peer can write as it likes.
#include <cstring>

#include "common/base/check.h"
#include "common/shm/shared_ring.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::wire::SlotHeader header;
  bastion::wire::SlotBounds bounds;
  if (size < sizeof(header) + sizeof(bounds)) return 0;
  std::memcpy(&header, data, sizeof(header));
  std::memcpy(&bounds, data + sizeof(header), sizeof(bounds));
  // The reader's own values, which it has checked.
  bounds.capacity = (bounds.capacity % (1 << 20) + 1) * bastion::wire::kSlotAlignment;
  bounds.available %= bounds.capacity + 1;
  header.crc32c = bastion::wire::HeaderCrc(header);
  if (!bastion::wire::CheckHeader(header, bounds).ok()) return 0;
  CHECK_LE(header.body_bytes, bounds.available);
  CHECK_LE(header.body_offset, bounds.available - header.body_bytes);
  return 0;
}
