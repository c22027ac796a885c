// A carrier moves the bytes of tensors between two services. Inline bytes in the message are the
// fallback and the reference; shared memory of the host (shared_channel.h) stands behind the same
// interface, with byte-identical results.
//
// One carrier serves one stream; used from the thread that writes (Reserve, Put) or reads (Get)
// that stream.
#ifndef BASTION_COMMON_WIRE_CARRIER_H_
#define BASTION_COMMON_WIRE_CARRIER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/bastion/internal/v1/stages.pb.h"

namespace bastion::wire {

using internal::v1::TensorRef;

struct TensorShape {
  TensorRef::DType dtype = TensorRef::DTYPE_FLOAT32;
  std::vector<int64_t> dims;

  [[nodiscard]] int64_t bytes() const;
};

class Carrier {
 public:
  virtual ~Carrier() = default;
  // Where to write the shape.bytes() of a tensor of the next message; good until that is sent.
  [[nodiscard]] virtual char* Reserve(const TensorShape& shape, TensorRef& reference) = 0;
  // Sends `bytes` as a tensor of `shape`. REQUIRES: bytes.size() == shape.bytes().
  void Put(const TensorShape& shape, absl::string_view bytes, TensorRef& reference);
  // The bytes behind `reference`, of the last message received; good until it goes and the next one
  // is received. INVALID_ARGUMENT when shape and size disagree or the bytes are not in the message,
  // UNIMPLEMENTED for a carrier that was not agreed on.
  [[nodiscard]] virtual absl::StatusOr<absl::string_view> Get(const TensorRef& reference) = 0;
};

// Writes dtype and shape.
void Describe(const TensorShape& shape, TensorRef& reference);
// INVALID_ARGUMENT unless the dtype and shape of `reference` need just so many bytes.
[[nodiscard]] absl::Status CheckBytes(const TensorRef& reference, uint64_t bytes);

class InlineCarrier final : public Carrier {
 public:
  char* Reserve(const TensorShape& shape, TensorRef& reference) override;
  absl::StatusOr<absl::string_view> Get(const TensorRef& reference) override;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_CARRIER_H_
