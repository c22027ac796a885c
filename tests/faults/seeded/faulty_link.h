// FaultyLink: a TCP relay between two services that a test makes slow, lossy or broken.
//
// TCP hides lost packets: a program sees them as a stall until the retransmission, or as a reset if
// too many are lost. The link therefore imitates loss by stalls and resets. Thread-safe.
#ifndef BASTION_TESTS_FAULTS_SEEDED_FAULTY_LINK_H_
#define BASTION_TESTS_FAULTS_SEEDED_FAULTY_LINK_H_

#include <atomic>
#include <deque>
#include <list>
#include <random>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace bastion::testing {

struct LinkFaults {
  bool cut = false;           // Nothing passes, in both directions, and no connection is accepted.
  bool deaf = false;          // What the service at `to` sends waits.
  absl::Duration delay = {};  // Each way.
  double loss = 0;            // Probability that a chunk of bytes waits for kRetransmission.
  double corruption = 0;      // Probability that a bit of a chunk flips.
  double truncation = 0;      // Probability that a connection ends in the middle of a chunk.
};

class FaultyLink {
 public:
  // The shortest time after which Linux sends a lost packet again.
  static constexpr absl::Duration kRetransmission = absl::Milliseconds(200);

  // Relays connections to `from` to `to`, both ports on the loopback interface.
  FaultyLink(int from, int to, uint64_t seed);
  ~FaultyLink();
  FaultyLink(const FaultyLink&) = delete;

  void Set(const LinkFaults& faults) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all connections with a reset.
  void Reset() { reset_.store(true); }
  // Chunks that were delayed, lost, corrupted or truncated, and connections that were reset.
  [[nodiscard]] int hits() const { return hits_.load(); }

 private:
  struct Chunk {
    absl::Duration due;
    std::string bytes;
  };
  struct Direction {
    std::deque<Chunk> chunks;
    size_t bytes = 0;  // In `chunks`.
    bool ended = false;
  };
  struct Connection {
    int sockets[2];           // Towards `from` and `to`.
    Direction directions[2];  // directions[i] has the bytes that sockets[i] sent.
    bool broken = false;
  };

  void Main();
  void Accept();
  // Moves the bytes that can move now.
  void Relay(Connection& connection, const LinkFaults& faults);
  void Read(Connection& connection, int from, const LinkFaults& faults);
  void Write(Connection& connection, int from);
  [[nodiscard]] bool Happens(double probability);

  const int to_;
  int listener_;
  std::mt19937_64 random_;  // Used by the thread only, as are the connections.
  std::list<Connection> connections_;
  std::atomic<bool> stopping_{false}, reset_{false};
  std::atomic<int> hits_{0};
  mutable Mutex mutex_;
  LinkFaults faults_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // The last member, because it uses the others.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_FAULTY_LINK_H_
