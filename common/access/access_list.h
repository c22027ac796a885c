// AccessList: who may call a service, and what for. It is read from a file with one caller per
// line:
//
//   # name          proof                                      rights
//   team-a          token:8f1c6d2e9b...                        generate
//   ops             token:51d0c3a7e2...                        generate,inspect
//   orchestrator    certificate:orchestrator.bastion.internal  draft,verify,inspect
//   drafter         certificate:drafter.bastion.internal       features
//
// A caller proves its name with a bearer token, or with a client certificate that has this subject
// alternative name or common name. The file is read again when it changes. If the new content is
// invalid, the old one stays in force and the error is logged. Thread-safe.
#ifndef BASTION_COMMON_ACCESS_ACCESS_LIST_H_
#define BASTION_COMMON_ACCESS_ACCESS_LIST_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/access/watched_file.h"
#include "common/base/mutex.h"

namespace bastion {

enum class Right : uint8_t {
  kGenerate,  // Request answers.
  kInspect,   // Read metrics, timelines and costs, and use the console.
  kDraft,     // Ask a drafter for marginals.
  kVerify,    // Use a verifier's sequences.
  kFeatures,  // Read a verifier's features.
};
[[nodiscard]] const char* RightName(Right right);

// What a caller shows to prove who it is.
struct CallerProof {
  std::string authorization = {};                   // The header "authorization". Empty: none.
  std::vector<std::string> certificate_names = {};  // Names in the verified client certificate.
};

class AccessList {
 public:
  static constexpr size_t kShortestToken = 16;  // Bytes.

  // Reads the list. Errors name the file and the line.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AccessList>> Load(const std::string& path);

  // The caller's name. UNAUTHENTICATED if the proof is missing or unknown, PERMISSION_DENIED if the
  // caller lacks `right`. The comparison of tokens takes the same time for all of them.
  [[nodiscard]] absl::StatusOr<std::string> Authorize(const CallerProof& proof, Right right)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Caller {
    std::string name;
    std::string certificate;  // Empty: the caller has a token.
    Digest token = {};        // SHA-256.
    uint32_t rights = 0;      // Bit i: the right with number i.
  };
  explicit AccessList(const std::string& path) : file_(path) {}

  [[nodiscard]] static Digest Hash(absl::string_view text);
  [[nodiscard]] static absl::StatusOr<std::vector<Caller>> Parse(const std::string& path,
                                                                 const std::string& content);
  // Null if the proof is unknown.
  [[nodiscard]] const Caller* Find(const CallerProof& proof) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  WatchedFile file_ ABSL_GUARDED_BY(mutex_);
  std::vector<Caller> callers_ ABSL_GUARDED_BY(mutex_);
};

// The token of "Bearer TOKEN", or the password of "Basic BASE64(name:password)", which browsers
// send. Empty for anything else.
[[nodiscard]] std::string TokenOf(absl::string_view authorization);

}  // namespace bastion

#endif  // BASTION_COMMON_ACCESS_ACCESS_LIST_H_
