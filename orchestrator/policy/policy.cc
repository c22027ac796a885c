#include "orchestrator/policy/policy.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace bastion {
namespace {

constexpr int kMaxCandidates = 64;

// An integer from 1 to kLargestNumber, digits only.
std::optional<int> ParseNumber(absl::string_view text) {
  int number = 0;
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &number) || number < 1 || number > Policy::kLargestNumber) {
    return std::nullopt;
  }
  return number;
}

absl::Status BadPolicy(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("policy \"", text,
                   "\" is not valid; use ar, chain[:n], beam:WxD, fixed:N, ngram:N, bastion, "
                   "adaptive or default, with numbers from 1 to ",
                   Policy::kLargestNumber,
                   "; all but ar accept the suffix +prior[:table|:request], and all but ar and "
                   "ngram accept +coupled"));
}

std::optional<Policy::Kind> KindOf(absl::string_view base) {
  using Kind = Policy::Kind;
  static constexpr std::pair<absl::string_view, Kind> kKinds[] = {
      {"ar", Kind::kAr},       {"chain", Kind::kChain},     {"beam", Kind::kBeam},
      {"fixed", Kind::kFixed}, {"bastion", Kind::kBastion}, {"adaptive", Kind::kAdaptive},
      {"ngram", Kind::kNgram}, {"default", Kind::kAdaptive}};
  for (const auto& [name, kind] : kKinds) {
    if (base == name) return kind;
  }
  return std::nullopt;
}

std::optional<Policy::Prior> PriorOf(absl::string_view suffix) {
  if (suffix == "prior") return Policy::Prior::kBoth;
  if (suffix == "prior:table") return Policy::Prior::kTable;
  if (suffix == "prior:request") return Policy::Prior::kRequest;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Policy> Policy::Parse(std::string_view text) {
  const absl::string_view view(text.data(), text.size());
  const std::vector<absl::string_view> parts = absl::StrSplit(view, '+');
  const std::pair<absl::string_view, absl::string_view> named =
      absl::StrSplit(parts[0], absl::MaxSplits(':', 1));
  const bool has_argument = absl::StrContains(parts[0], ":");
  const std::optional<Kind> kind = KindOf(named.first);
  if (!kind.has_value()) return BadPolicy(view);
  Policy policy(*kind, text);

  if (*kind == Kind::kBeam) {
    const std::vector<absl::string_view> sides = absl::StrSplit(named.second, 'x');
    if (sides.size() != 2) return BadPolicy(view);
    const std::optional<int> width = ParseNumber(sides[0]);
    const std::optional<int> depth = ParseNumber(sides[1]);
    if (!width.has_value() || !depth.has_value()) return BadPolicy(view);
    policy.width_ = *width;
    policy.depth_ = *depth;
  } else if (*kind == Kind::kFixed || *kind == Kind::kNgram ||
             (*kind == Kind::kChain && has_argument)) {
    const std::optional<int> nodes = ParseNumber(named.second);
    if (!nodes.has_value()) return BadPolicy(view);
    policy.nodes_ = *nodes;
  } else if (has_argument) {
    return BadPolicy(view);
  }
  if (*kind == Kind::kNgram) policy.prior_ = Prior::kBoth;
  std::vector<absl::string_view> suffixes(parts.begin() + 1, parts.end());
  if (named.first == "default") suffixes.insert(suffixes.begin(), {"coupled", "prior"});
  for (const absl::string_view suffix : suffixes) {
    const std::optional<Prior> prior = PriorOf(suffix);
    const bool fits = prior.has_value() ? *kind != Kind::kAr : policy.wants_draft();
    if (!fits || (!prior.has_value() && suffix != "coupled")) return BadPolicy(view);
    if (prior.has_value()) {
      policy.prior_ = *prior;
    } else {
      policy.coupled_ = true;
    }
  }
  return policy;
}

int Policy::CandidatesFor(int max_nodes) const {
  if (prior_ != Prior::kNone && wants_draft()) return kMaxCandidates;
  switch (kind_) {
    case Kind::kAr:
    case Kind::kNgram:
      return 0;
    case Kind::kChain:
      return std::min(1, max_nodes);
    case Kind::kBeam:
      return std::min(width_, max_nodes);
    case Kind::kFixed:
      return std::min(nodes_, max_nodes);
    case Kind::kBastion:
    case Kind::kAdaptive:
      break;
  }
  return std::min(kMaxCandidates, max_nodes);
}

}  // namespace bastion
