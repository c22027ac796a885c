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
  // The next header that the reader goes to.
  CHECK_GE(header.extent, sizeof(header));
  CHECK_LE(header.extent, bounds.available);
  // A skip has no body, and the reader ignores these fields.
  if (header.kind == bastion::wire::SlotKind::kSkip) return 0;
  CHECK_LE(header.body_bytes, header.extent);
  CHECK_LE(header.body_offset, header.extent - header.body_bytes);
  return 0;
}
