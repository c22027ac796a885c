// The messages of the internal protocol, in both directions: everything that the codec decodes.
#include "common/stages/stages.h"
#include "common/wire/codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

void DecodeVerifierRequest(const std::string& bytes) {
  proto::VerifierRequest request;
  if (!request.ParseFromString(bytes)) return;
  if (request.has_open()) (void)wire::Decode(request.open().sampling());
  if (request.has_reuse_prefix()) (void)wire::Decode(request.reuse_prefix());
  if (!request.has_verify()) return;
  const auto call = wire::Decode(request.verify());
  if (!call.ok()) return;
  // What was decoded is encoded and decoded again.
  proto::VerifierRequest::Verify again;
  wire::Encode(call->forest, call->prompts, again);
  (void)wire::Decode(again);
}

void DecodeVerifierReply(const std::string& bytes) {
  proto::VerifierReply reply;
  if (!reply.ParseFromString(bytes)) return;
  (void)wire::Decode(reply.status());
  (void)wire::DecodeVerifyResult(reply);
}

void DecodeDrafterRequest(const std::string& bytes) {
  proto::DrafterRequest request;
  if (!request.ParseFromString(bytes)) return;
  for (const auto& frontier : request.expand().frontiers()) (void)wire::Decode(frontier);
}

void DecodeDrafterReply(const std::string& bytes) {
  proto::DrafterReply reply;
  if (!reply.ParseFromString(bytes)) return;
  wire::InlineCarrier carrier;
  (void)wire::Decode(reply.status());
  (void)wire::Decode(reply.trace());
  for (const auto& draft : reply.drafts()) {
    const auto decoded = wire::Decode(draft, carrier);
    if (!decoded.ok()) continue;
    for (const Marginals& marginals : decoded->marginals) (void)marginals.Validate(1 << 10);
  }
}

void DecodeFeatures(const std::string& bytes) {
  proto::TensorRef reference;
  if (!reference.ParseFromString(bytes)) return;
  wire::InlineCarrier carrier;
  (void)wire::Decode(reference, carrier);
  (void)wire::Decode(reference, nullptr);
}

void DecodeInfo(const std::string& bytes) {
  proto::TargetInfo target;
  if (target.ParseFromString(bytes)) (void)wire::Decode(target);
  proto::DrafterInfo drafter;
  if (drafter.ParseFromString(bytes)) (void)wire::Decode(drafter);
}

}  // namespace
}  // namespace bastion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  constexpr void (*kDecoders[])(const std::string&) = {
      bastion::DecodeVerifierRequest, bastion::DecodeVerifierReply, bastion::DecodeDrafterRequest,
      bastion::DecodeDrafterReply,    bastion::DecodeFeatures,      bastion::DecodeInfo};
  const size_t which = input.Byte() % std::size(kDecoders);
  kDecoders[which](input.Rest());
  return 0;
}
