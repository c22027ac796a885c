// The masks of a tree (common/stages/token_set.h) as messages. Thread-safe: no state.
#ifndef BASTION_COMMON_WIRE_MASK_CODEC_H_
#define BASTION_COMMON_WIRE_MASK_CODEC_H_

#include "absl/status/statusor.h"
#include "bastion/internal/v1/stages.pb.h"
#include "common/stages/token_set.h"

namespace bastion::wire {

// Sets the masks of `out`. Each takes the shorter form: its tokens, or a bit per token.
void Encode(const RowMasks& masks, internal::v1::VerifierRequest::Item& out);
// INVALID_ARGUMENT if the masks are damaged or take too much memory. RowMasks::Validate compares
// them with the tree.
[[nodiscard]] absl::StatusOr<RowMasks> DecodeMasks(const internal::v1::VerifierRequest::Item& in);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_MASK_CODEC_H_
