// Load: clients that send requests one after another, and compare every text with the one that the
// same request got alone. Thread-compatible.
#ifndef BASTION_TESTS_FAULTS_SEEDED_LOAD_H_
#define BASTION_TESTS_FAULTS_SEEDED_LOAD_H_

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bastion/generation_client.h"
#include "common/base/mutex.h"
#include "tests/faults/seeded/replica.h"

namespace bastion::testing {

// How a request ended.
struct Outcome {
  absl::Status status;
  std::string text;
  bool accepted = false;  // The server has sent Started.
  bool canceled = false;  // By the client. The text is a part of the answer.
  bool right = false;     // The text, or the part of it, is that of the same request alone.
  uint64_t draft_tokens = 0;
};

class Load {
 public:
  Load(const Replica& replica, int clients, uint64_t seed);
  // Ends the running requests.
  ~Load();
  Load(const Load&) = delete;

  // Gets the text of every request alone. Its error, if a request fails.
  [[nodiscard]] absl::Status MakeReferences();
  // The clients start to send requests.
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until `count` requests that were sent since Resume have got their first token; false
  // after `limit`.
  [[nodiscard]] bool AwaitFirstTokens(int count, absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // How the requests have ended that ended since the last call of Take or Pause.
  [[nodiscard]] std::vector<Outcome> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // The clients send no further requests. Waits for the running ones. Returns what Take would.
  [[nodiscard]] std::vector<Outcome> Pause() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends one short request that drafts, over `client`.
  [[nodiscard]] Outcome Probe(GenerationClient& client) { return Send(client, references_[0], -1); }

 private:
  struct Reference {
    v1::GenerateRequest request;
    std::string text;
  };

  void Main(uint64_t seed) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends a request. Cancels it after `deltas` messages; -1: never.
  [[nodiscard]] Outcome Send(GenerationClient& client, const Reference& reference, int deltas);

  const Replica& replica_;
  std::vector<Reference> references_;  // The first one is that of Probe.
  Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int sending_ ABSL_GUARDED_BY(mutex_) = 0;       // Clients that send.
  int first_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // Since Resume.
  std::vector<Outcome> outcomes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // The last member, because they use the others.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_LOAD_H_
