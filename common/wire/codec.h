// Converts between the messages of the internal protocol and the plain data of the stages. Encode
// cannot fail. Decode checks that a message is well formed and returns INVALID_ARGUMENT if not.
// Thread-safe: no state.
#ifndef BASTION_COMMON_WIRE_CODEC_H_
#define BASTION_COMMON_WIRE_CODEC_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bastion/internal/v1/stages.pb.h"
#include "common/shm/device_ring.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"
#include "common/wire/carrier.h"

namespace bastion::wire {

namespace proto = internal::v1;

void Encode(SequenceId id, proto::SequenceId& out);
[[nodiscard]] SequenceId Decode(const proto::SequenceId& in);

void Encode(const absl::Status& status, proto::StepStatus& out);
[[nodiscard]] absl::Status Decode(const proto::StepStatus& in);

void Encode(const ChoiceParams& choice, proto::ChoiceParams& out);
[[nodiscard]] ChoiceParams Decode(const proto::ChoiceParams& in);

void Encode(const SamplingParams& sampling, proto::SamplingParams& out);
[[nodiscard]] absl::StatusOr<SamplingParams> Decode(const proto::SamplingParams& in);

void Encode(const DraftTree& tree, proto::DraftTree& out);
[[nodiscard]] absl::StatusOr<DraftTree> Decode(const proto::DraftTree& in);

void Encode(const TimingTrace& trace, proto::TimingTrace& out);
[[nodiscard]] TimingTrace Decode(const proto::TimingTrace& in);
void Encode(const DraftTrace& trace, proto::DraftTrace& out);
[[nodiscard]] DraftTrace Decode(const proto::DraftTrace& in);

void Encode(const PrefixItem& item, proto::VerifierRequest::ReusePrefix& out);
[[nodiscard]] PrefixItem Decode(const proto::VerifierRequest::ReusePrefix& in);

// The arguments of Verifier::Verify.
struct VerifyCall {
  Forest forest;
  std::vector<PrefillItem> prompts;
};
void Encode(const Forest& forest, absl::Span<const PrefillItem> prompts,
            proto::VerifierRequest::Verify& out);
[[nodiscard]] absl::StatusOr<VerifyCall> Decode(const proto::VerifierRequest::Verify& in);

// Converts the fields of a Verify reply.
void Encode(const VerifyResult& result, proto::VerifierReply& out);
[[nodiscard]] VerifyResult DecodeVerifyResult(const proto::VerifierReply& in);

void Encode(const Frontier& frontier, proto::DrafterRequest::Frontier& out);
[[nodiscard]] Frontier Decode(const proto::DrafterRequest::Frontier& in);

void Encode(const Draft& draft, Carrier& carrier, proto::DrafterReply::Draft& out);
[[nodiscard]] absl::StatusOr<Draft> Decode(const proto::DrafterReply::Draft& in, Carrier& carrier);

// Features have no Encode: the sender writes them directly into the memory that the carrier
// reserved.
[[nodiscard]] TensorRef::DType FeatureDType(DType type);
[[nodiscard]] TensorShape FeatureShape(DType type, int rows, int width);
[[nodiscard]] absl::StatusOr<Features> Decode(const proto::TensorRef& in, Carrier& carrier);
// Decodes features in GPU memory. UNIMPLEMENTED if `ring` is null.
[[nodiscard]] absl::StatusOr<Features> Decode(const proto::TensorRef& in,
                                              const std::shared_ptr<const DeviceRingReader>& ring);

void Encode(const EngineActivity& activity, proto::EngineActivity& out);
[[nodiscard]] EngineActivity Decode(const proto::EngineActivity& in);
void Encode(const TargetInfo& info, proto::TargetInfo& out);
[[nodiscard]] TargetInfo Decode(const proto::TargetInfo& in);

void Encode(const DrafterInfo& info, proto::DrafterInfo& out);
[[nodiscard]] DrafterInfo Decode(const proto::DrafterInfo& in);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_CODEC_H_
