// The masks of a tree (common/stages/token_set.h) as messages. Thread-safe: no state.
#ifndef BASTION_COMMON_WIRE_MASK_CODEC_H_
#define BASTION_COMMON_WIRE_MASK_CODEC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "bastion/internal/v1/stages.pb.h"
#include "common/stages/token_set.h"

namespace bastion::wire {

// Sets the masks of `out`. Each takes the shorter form: its tokens, or a bit per token.
void Encode(const RowMasks& masks, internal::v1::VerifierRequest::Item& out);
// The most memory that the masks of one message may take.
inline constexpr int64_t kMaxMaskBytes = 128 << 20;

// Subtracts the memory of the masks from `room`, in bytes. INVALID_ARGUMENT if the masks are
// damaged or have no room. RowMasks::Validate compares them with the tree.
[[nodiscard]] absl::StatusOr<RowMasks> DecodeMasks(const internal::v1::VerifierRequest::Item& in,
                                                   int64_t& room);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_MASK_CODEC_H_
