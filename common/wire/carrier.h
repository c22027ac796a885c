// A carrier moves the bytes of tensors between two services. The InlineCarrier puts them into the
// message; a SharedChannel (shared_channel.h) puts them into shared memory. The results are
// byte-identical.
//
// One carrier serves one stream. The thread that sends calls Reserve and Put; the thread that
// receives calls Get.
#ifndef BASTION_COMMON_WIRE_CARRIER_H_
#define BASTION_COMMON_WIRE_CARRIER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bastion/internal/v1/stages.pb.h"

namespace bastion::wire {

using internal::v1::TensorRef;

struct TensorShape {
  TensorRef::DType dtype = TensorRef::DTYPE_FLOAT32;
  std::vector<int64_t> dims;

  // -1 if the type or a dim is invalid.
  [[nodiscard]] int64_t bytes() const;
};

class Carrier {
 public:
  virtual ~Carrier() = default;
  // Reserves shape.bytes() for a tensor of the next message and fills `reference`. The caller
  // writes the bytes before it sends the message.
  [[nodiscard]] virtual char* Reserve(const TensorShape& shape, TensorRef& reference) = 0;
  // Like Reserve, and copies `bytes` there. REQUIRES: bytes.size() == shape.bytes().
  void Put(const TensorShape& shape, absl::string_view bytes, TensorRef& reference);
  // The bytes of a tensor of the last message received. They stay valid while that message lives
  // and until the next message is received. INVALID_ARGUMENT if shape and size disagree or the
  // bytes are not in the message, UNIMPLEMENTED if the stream does not use the reference's carrier.
  [[nodiscard]] virtual absl::StatusOr<absl::string_view> Get(const TensorRef& reference) = 0;
};

// Writes the dtype and dims of `shape` to `reference`.
void SetShape(const TensorShape& shape, TensorRef& reference);
// INVALID_ARGUMENT unless a tensor of the dtype and shape of `reference` has exactly `bytes`.
[[nodiscard]] absl::Status CheckBytes(const TensorRef& reference, uint64_t bytes);

class InlineCarrier final : public Carrier {
 public:
  char* Reserve(const TensorShape& shape, TensorRef& reference) override;
  absl::StatusOr<absl::string_view> Get(const TensorRef& reference) override;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_CARRIER_H_
