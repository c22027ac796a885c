#include "common/wire/mask_codec.h"

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::wire {
namespace {

void Encode(const TokenSet& set, internal::v1::VerifierRequest::TokenSet& out) {
  const std::vector<uint32_t>& words = set.words();
  // A token takes about 3 bytes as a number.
  if (static_cast<size_t>(set.size()) * 3 >= words.size() * sizeof(uint32_t)) {
    std::string& bits = *out.mutable_bits();
    bits.resize(words.size() * sizeof(uint32_t));
    std::memcpy(bits.data(), words.data(), bits.size());
    return;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    for (uint32_t left = words[i]; left != 0; left &= left - 1) {
      out.add_tokens(static_cast<int>(i) * TokenSet::kBits + std::countr_zero(left));
    }
  }
}

absl::StatusOr<TokenSet> Decode(const internal::v1::VerifierRequest::TokenSet& in, int vocabulary) {
  TokenSet set(vocabulary);
  if (in.bits().empty()) {
    for (const TokenId token : in.tokens()) {
      if (token < 0 || token >= vocabulary) {
        return absl::InvalidArgumentError(
            absl::StrCat("mask: token ", token, " is outside the vocabulary of ", vocabulary));
      }
      set.Add(token);
    }
    return set;
  }
  std::vector<uint32_t>& words = set.words();
  if (in.bits().size() != words.size() * sizeof(uint32_t)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mask: ", in.bits().size(), " bytes for a vocabulary of ", vocabulary));
  }
  std::memcpy(words.data(), in.bits().data(), in.bits().size());
  const int used = vocabulary % TokenSet::kBits;  // Bits of the last word; 0: all.
  if (used != 0 && words.back() >> used != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("mask: a token is outside the vocabulary of ", vocabulary));
  }
  return set;
}

}  // namespace

void Encode(const RowMasks& masks, internal::v1::VerifierRequest::Item& out) {
  for (const TokenSet& set : masks.sets) {
    out.set_mask_vocabulary(set.vocabulary());
    Encode(set, *out.add_masks());
  }
  out.mutable_mask_of_row()->Add(masks.set_of_row.begin(), masks.set_of_row.end());
}

absl::StatusOr<RowMasks> DecodeMasks(const internal::v1::VerifierRequest::Item& in, int64_t& room) {
  RowMasks masks;
  const int vocabulary = in.mask_vocabulary();
  room -= int64_t{in.masks_size()} * vocabulary / 8;
  if (vocabulary < 0 || room < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("too many masks: ", in.masks_size(), " for a vocabulary of ", vocabulary));
  }
  for (const internal::v1::VerifierRequest::TokenSet& encoded : in.masks()) {
    ASSIGN_OR_RETURN(masks.sets.emplace_back(), Decode(encoded, vocabulary));
  }
  masks.set_of_row.assign(in.mask_of_row().begin(), in.mask_of_row().end());
  return masks;
}

}  // namespace bastion::wire
