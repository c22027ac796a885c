#include "orchestrator/policy/policy.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "orchestrator/policy/adaptive_policy.h"
#include "orchestrator/policy/ar_policy.h"
#include "orchestrator/policy/assisted_policy.h"
#include "orchestrator/policy/bastion_policy.h"
#include "orchestrator/policy/beam_policy.h"
#include "orchestrator/policy/chain_policy.h"
#include "orchestrator/policy/dynatree_policy.h"
#include "orchestrator/policy/eagle_policy.h"
#include "orchestrator/policy/fixed_policy.h"
#include "orchestrator/policy/request_policy.h"
#include "orchestrator/policy/specblock_policy.h"

namespace bastion {
namespace {

// The grammar of base names.
struct BaseName {
  absl::string_view name;
  absl::string_view usage;
  // Null if the argument, the text after the colon, is not valid.
  std::unique_ptr<const PolicyKind> (*parse)(std::optional<std::string_view> argument);
};

constexpr BaseName kBaseNames[] = {
    {"ar", "ar", ParseWithoutArgument<ArPolicy>},
    {"chain", "chain[:n]", ChainPolicy::Parse},
    {"beam", "beam:WxD", BeamPolicy::Parse},
    {"fixed", "fixed:N", FixedPolicy::Parse<FixedPolicy::Source::kDrafter>},
    {"linear", "linear:K", ChainPolicy::ParseLinear},
    {"assisted", "assisted", ParseWithoutArgument<AssistedPolicy>},
    {"dynatree", "dynatree[:fixed|name=value,…]", DynaTreePolicy::Parse},
    {"eagle", "eagle[:width[,depth[,n]]]", EaglePolicy::Parse},
    {"specblock", "specblock[:literal|name=value,…]", SpecBlockPolicy::Parse},
    {"ngram", "ngram:N", FixedPolicy::Parse<FixedPolicy::Source::kPriorAlone>},
    {"bastion", "bastion[:static|ema|ema-calib][,alpha=A,k=K,n=N]", BastionPolicy::Parse},
    {"adaptive", "adaptive", ParseWithoutArgument<AdaptivePolicy>},
    {"default", "default", ParseWithoutArgument<AdaptivePolicy>},
};

absl::Status BadPolicy(absl::string_view text) {
  std::string usages;
  for (const BaseName& base : kBaseNames) {
    const char* separator = &base == std::begin(kBaseNames)     ? ""
                            : &base + 1 == std::end(kBaseNames) ? " or "
                                                                : ", ";
    absl::StrAppend(&usages, separator, base.usage);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("policy \"", text, "\" is not valid; use ", usages, ", with numbers from 1 to ",
                   kLargestPolicyNumber,
                   "; all but ar accept the suffix +prior[:table|:request], and all but ar and "
                   "ngram accept +coupled"));
}

std::unique_ptr<const PolicyKind> ParseKind(absl::string_view name,
                                            std::optional<std::string_view> argument) {
  for (const BaseName& base : kBaseNames) {
    if (name == base.name) return base.parse(argument);
  }
  return nullptr;
}

std::optional<Policy::Prior> PriorOf(absl::string_view suffix) {
  if (suffix == "prior") return Policy::Prior::kBoth;
  if (suffix == "prior:table") return Policy::Prior::kTable;
  if (suffix == "prior:request") return Policy::Prior::kRequest;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> PolicyBaseNames() {
  std::vector<std::string> names;
  for (const BaseName& base : kBaseNames) names.emplace_back(base.name);
  return names;
}

std::vector<std::string> SplitPolicies(std::string_view list) {
  std::vector<std::string> policies;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(list.data(), list.size()), ',', absl::SkipEmpty())) {
    // In "bastion:ema,k=8" and "eagle:10,7", the second part belongs to the policy before it.
    const bool continues = absl::ascii_isdigit(part[0]) || part.find('=') < part.find(':');
    if (continues && !policies.empty()) {
      absl::StrAppend(&policies.back(), ",", part);
    } else {
      policies.emplace_back(part);
    }
  }
  return policies;
}

absl::StatusOr<Policy> Policy::Parse(std::string_view text) {
  const absl::string_view view(text.data(), text.size());
  std::vector<absl::string_view> suffixes = absl::StrSplit(view, '+');
  const std::vector<absl::string_view> base = absl::StrSplit(suffixes[0], absl::MaxSplits(':', 1));
  suffixes.erase(suffixes.begin());
  std::optional<std::string_view> argument;
  if (base.size() > 1) argument.emplace(base[1].data(), base[1].size());
  std::shared_ptr<const PolicyKind> kind = ParseKind(base[0], argument);
  if (kind == nullptr) return BadPolicy(view);

  const bool may_speculate = kind->wants_draft() || kind->needs_prior();
  Policy policy(text, std::move(kind));
  if (policy.kind_->needs_prior()) policy.prior_ = Prior::kBoth;
  if (base[0] == "default") suffixes.insert(suffixes.begin(), {"coupled", "prior"});
  for (const absl::string_view suffix : suffixes) {
    const std::optional<Prior> prior = PriorOf(suffix);
    const bool fits =
        prior.has_value() ? may_speculate : suffix == "coupled" && policy.wants_draft();
    if (!fits) return BadPolicy(view);
    if (prior.has_value()) {
      policy.prior_ = *prior;
    } else {
      policy.coupled_ = true;
    }
  }
  return policy;
}

int Policy::CandidatesFor(int max_nodes) const {
  if (prior_ != Prior::kNone && wants_draft()) return kMaxUsefulCandidates;
  return kind_->CandidatesFor(max_nodes);
}

std::unique_ptr<RequestPolicy> Policy::NewRequest(bool greedy, const CostModel* costs,
                                                  SharedLearning* memory) const {
  return kind_->NewRequest({*this, greedy, costs, memory});
}

}  // namespace bastion
