#include "common/access/access_list.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr const char* kRightNames[] = {"generate", "inspect", "draft", "verify", "features"};

absl::StatusOr<uint32_t> ParseRights(absl::string_view text) {
  uint32_t rights = 0;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    const auto* const found = std::find(std::begin(kRightNames), std::end(kRightNames), name);
    if (found == std::end(kRightNames)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name,
                       "\" is not a right; use generate, inspect, draft, verify or features, "
                       "separated by commas"));
    }
    rights |= uint32_t{1} << (found - std::begin(kRightNames));
  }
  return rights;
}

}  // namespace

const char* RightName(Right right) { return kRightNames[static_cast<size_t>(right)]; }

absl::StatusOr<std::unique_ptr<AccessList>> AccessList::Load(const std::string& path) {
  std::unique_ptr<AccessList> list(new AccessList(path));
  MutexLock lock(&list->mutex_);
  ASSIGN_OR_RETURN(const std::string content, list->file_.Read(kMaxFileBytes));
  ASSIGN_OR_RETURN(list->callers_, Parse(path, content));
  return list;
}

AccessList::Digest AccessList::Hash(absl::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  return digest;
}

absl::StatusOr<std::vector<AccessList::Caller>> AccessList::Parse(const std::string& path,
                                                                  const std::string& content) {
  std::vector<Caller> callers;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto error = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": line ", number, ": ", what));
    };
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 3) {
      return error("write a name, token:TOKEN or certificate:NAME, and rights");
    }
    Caller caller;
    caller.name = words[0];
    absl::string_view proof = words[1];
    if (absl::ConsumePrefix(&proof, "token:")) {
      // The message must not contain the token.
      if (proof.size() < kShortestToken) {
        return error(absl::StrCat("the token is shorter than ", kShortestToken, " bytes"));
      }
      caller.token = Hash(proof);
    } else if (absl::ConsumePrefix(&proof, "certificate:") && !proof.empty()) {
      caller.certificate = std::string(proof);
    } else {
      return error("the second word must be token:TOKEN or certificate:NAME");
    }
    const absl::StatusOr<uint32_t> rights = ParseRights(words[2]);
    if (!rights.ok()) return error(rights.status().message());
    caller.rights = *rights;
    callers.push_back(std::move(caller));
  }
  return callers;
}

const AccessList::Caller* AccessList::Find(const CallerProof& proof) const {
  const std::string token = TokenOf(proof.authorization);
  if (!token.empty()) {
    const Digest digest = Hash(token);
    const Caller* found = nullptr;
    for (const Caller& caller : callers_) {
      const bool equal = CRYPTO_memcmp(caller.token.data(), digest.data(), digest.size()) == 0;
      if (equal && caller.certificate.empty()) found = &caller;
    }
    return found;
  }
  for (const Caller& caller : callers_) {
    if (!caller.certificate.empty() &&
        std::count(proof.certificate_names.begin(), proof.certificate_names.end(),
                   caller.certificate) > 0) {
      return &caller;
    }
  }
  return nullptr;
}

absl::StatusOr<std::string> AccessList::Authorize(const CallerProof& proof, Right right) {
  MutexLock lock(&mutex_);
  if (file_.HasChanged()) {
    const absl::StatusOr<std::string> content = file_.Read(kMaxFileBytes);
    auto callers = content.ok() ? Parse(file_.path(), *content) : content.status();
    if (callers.ok()) {
      callers_ = *std::move(callers);
      LOG(INFO) << "access list read again: " << callers_.size() << " callers";
    } else {
      LOG(ERROR) << "the access list keeps its old content: " << callers.status();
    }
  }
  const Caller* const caller = Find(proof);
  if (caller == nullptr) {
    return absl::UnauthenticatedError(
        proof.authorization.empty() && proof.certificate_names.empty()
            ? "the call has neither a bearer token nor a client certificate"
            : "the token or certificate is unknown");
  }
  if ((caller->rights >> static_cast<uint32_t>(right) & 1) == 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("caller ", caller->name, " lacks the right ", RightName(right)));
  }
  return caller->name;
}

std::string TokenOf(absl::string_view authorization) {
  const size_t space = authorization.find(' ');
  if (space == absl::string_view::npos) return "";
  const absl::string_view scheme = authorization.substr(0, space);
  const absl::string_view value = absl::StripAsciiWhitespace(authorization.substr(space));
  if (absl::EqualsIgnoreCase(scheme, "bearer")) return std::string(value);
  std::string decoded;
  if (!absl::EqualsIgnoreCase(scheme, "basic") || !absl::Base64Unescape(value, &decoded)) return "";
  const size_t colon = decoded.find(':');
  return colon == std::string::npos ? "" : decoded.substr(colon + 1);
}

}  // namespace bastion
