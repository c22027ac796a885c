#include "orchestrator/intake/request_id.h"

#include <algorithm>
#include <string_view>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/hub/utf8.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

}  // namespace

// Ids are written to logs, where a line break would look like a line of the service, and to spans,
// which a collector may refuse if a text is not UTF-8.
absl::Status CheckRequestId(absl::string_view id) {
  if (id.size() > kMaxRequestIdBytes) {
    return FieldError("request_id", absl::StrCat("has ", id.size(), " bytes; at most ",
                                                 kMaxRequestIdBytes, " are allowed"));
  }
  if (hub::FindInvalidUtf8({id.data(), id.size()}) != std::string_view::npos) {
    return FieldError("request_id", "is not UTF-8");
  }
  if (std::none_of(id.begin(), id.end(), absl::ascii_iscntrl)) return absl::OkStatus();
  return FieldError("request_id", "contains a control character; remove it");
}

std::string RequestIdOrNew(const std::string& stated) {
  if (!stated.empty() && CheckRequestId(stated).ok()) return stated;
  absl::BitGen bits;
  return absl::StrCat("req-", absl::Hex(absl::Uniform<uint64_t>(bits), absl::kZeroPad16));
}

}  // namespace bastion
