// SharedMemoryDamage: overwrites the counters of the streams over shared memory between two
// services, again and again until it is destroyed. The services go on running. A thread of its own;
// the object is thread-compatible.
#ifndef BASTION_TESTS_FAULTS_SEEDED_SHARED_MEMORY_DAMAGE_H_
#define BASTION_TESTS_FAULTS_SEEDED_SHARED_MEMORY_DAMAGE_H_

#include <sys/types.h>

#include <atomic>
#include <thread>

namespace bastion::testing {

class SharedMemoryDamage {
 public:
  // Overwrites what the process `owner` tells the process `peer` it has read, so that the peer
  // finds no room for further messages. REQUIRES: both are child processes, or this user may trace
  // them.
  SharedMemoryDamage(pid_t owner, pid_t peer);
  ~SharedMemoryDamage();
  SharedMemoryDamage(const SharedMemoryDamage&) = delete;

  // How often a counter was overwritten.
  [[nodiscard]] int hits() const { return hits_; }

 private:
  void Main();

  const pid_t owner_, peer_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> hits_{0};
  std::thread thread_;  // The last member, because it uses the others.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FAULTS_SEEDED_SHARED_MEMORY_DAMAGE_H_
