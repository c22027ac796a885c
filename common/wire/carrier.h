// A carrier moves the bytes of tensors between two services. Inline bytes in the message are the
// fallback and the reference; shared memory of the host and of a GPU will stand behind the same
// interface, with byte-identical results.
//
// One carrier serves one stream; used from the thread that writes (Put) or reads (Get) that stream.
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
  // Sends `bytes` as a tensor of `shape`. REQUIRES: bytes.size() == shape.bytes().
  virtual void Put(const TensorShape& shape, absl::string_view bytes, TensorRef& reference) = 0;
  // The bytes behind `reference`, good until it or the next Get goes. INVALID_ARGUMENT when shape
  // and size disagree, UNIMPLEMENTED for a carrier that was not agreed on.
  [[nodiscard]] virtual absl::StatusOr<absl::string_view> Get(const TensorRef& reference) = 0;
};

class InlineCarrier final : public Carrier {
 public:
  void Put(const TensorShape& shape, absl::string_view bytes, TensorRef& reference) override;
  absl::StatusOr<absl::string_view> Get(const TensorRef& reference) override;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_CARRIER_H_
