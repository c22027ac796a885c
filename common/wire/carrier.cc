#include "common/wire/carrier.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::wire {
namespace {

constexpr int64_t kMaxTensorBytes = int64_t{1} << 31;

int64_t ElementBytes(TensorRef::DType dtype) {
  switch (dtype) {
    case TensorRef::DTYPE_FLOAT32:
    case TensorRef::DTYPE_INT32:
      return 4;
    case TensorRef::DTYPE_BFLOAT16:
      return 2;
    default:
      return 0;
  }
}

// Bytes of a tensor with this type and shape. -1 if the type or shape, which a peer may have sent,
// is invalid.
int64_t CheckedBytes(TensorRef::DType dtype, absl::Span<const int64_t> dims) {
  int64_t bytes = ElementBytes(dtype);
  if (bytes == 0) return -1;
  for (const int64_t dim : dims) {
    // If an earlier dim is 0, `bytes` is 0 and limits nothing, but decoders store every dim as int.
    if (dim < 0 || dim > std::numeric_limits<int32_t>::max()) return -1;
    if (dim > 0 && bytes > kMaxTensorBytes / dim) return -1;
    bytes *= dim;
  }
  return bytes;
}

}  // namespace

int64_t TensorShape::bytes() const { return CheckedBytes(dtype, dims); }

void SetShape(const TensorShape& shape, TensorRef& reference) {
  reference.set_dtype(shape.dtype);
  for (const int64_t dim : shape.dims) reference.add_shape(dim);
}

absl::Status CheckBytes(const TensorRef& reference, uint64_t bytes) {
  const int64_t needed = CheckedBytes(
      reference.dtype(), {reference.shape().data(), static_cast<size_t>(reference.shape_size())});
  if (needed >= 0 && static_cast<uint64_t>(needed) == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor: the message has ", bytes,
                                                 " bytes, but the type and shape need ", needed,
                                                 " (-1: they are invalid)"));
}

void Carrier::Put(const TensorShape& shape, absl::string_view bytes, TensorRef& reference) {
  CHECK_EQ(shape.bytes(), static_cast<int64_t>(bytes.size()));
  char* const to = Reserve(shape, reference);
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}

char* InlineCarrier::Reserve(const TensorShape& shape, TensorRef& reference) {
  SetShape(shape, reference);
  std::string& bytes = *reference.mutable_inline_();
  bytes.resize(static_cast<size_t>(shape.bytes()));
  return bytes.data();
}

absl::StatusOr<absl::string_view> InlineCarrier::Get(const TensorRef& reference) {
  if (reference.carrier_case() != TensorRef::kInline) {
    return absl::UnimplementedError(
        "tensor: this stream supports only inline bytes, but the peer sent another carrier");
  }
  RETURN_IF_ERROR(CheckBytes(reference, reference.inline_().size()));
  return reference.inline_();
}

}  // namespace bastion::wire
