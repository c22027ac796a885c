// FairOrder: the order in which waiting requests are admitted.
//
//   - Preempted requests come before all others, the one that was admitted first before the rest.
//   - Otherwise clients take turns: the client with the least service per weight comes next. Within
//     a client, the weight with the least service per weight comes next, then the first to arrive.
//
// Service is counted in committed tokens, by fair_shares.h. A request that holds a slot also counts
// as kSlotDeposit tokens, so clients take turns before their first tokens are counted. Once a
// request's turn has come, no other request that is not preempted overtakes it.
//
// A request is a party of its client's share from Add to Leave, wherever it is. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_FAIR_ORDER_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_FAIR_ORDER_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "orchestrator/schedule/fair_shares.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {

class FairOrder {
 public:
  using Request = std::unique_ptr<LiveRequest>;
  // Tokens that a slot counts for, in addition to the committed tokens.
  static constexpr double kSlotDeposit = 256;

  // Adds a new request.
  void Add(Request request);
  // As Add, but before the others of its client and weight.
  void AddFirst(Request request);
  // Adds a request that was taken before and has released its slot, before all that are not
  // preempted.
  void AddPreempted(Request request);
  // As AddPreempted, but only before the others of its client and weight.
  void AddReturned(Request request);

  // The request whose turn it is; null if none waits.
  [[nodiscard]] const LiveRequest* Next();
  // Removes Next(), which now holds a slot. REQUIRES: a request waits.
  [[nodiscard]] Request Take();
  // Removes the requests that `selected` accepts. Their part in the shares ends.
  [[nodiscard]] std::vector<Request> Remove(absl::FunctionRef<bool(const LiveRequest&)> selected);

  // Counts `tokens` as service. REQUIRES: the request was added and has not left.
  void Charge(const LiveRequest& request, double tokens);
  // The request gives back its slot. REQUIRES: it was taken.
  void ReleaseSlot(const LiveRequest& request) { Deposit(request, -kSlotDeposit); }
  // Ends the request's part in the shares. REQUIRES: it was taken and holds no slot.
  void Leave(const LiveRequest& request);

  [[nodiscard]] int size() const { return size_; }  // Requests that wait.
  // The prompts of the first answers that wait. Further answers to a prompt do not count.
  [[nodiscard]] int prompts() const { return prompts_; }
  // No request waits, holds a slot or may return.
  [[nodiscard]] bool idle() const { return clients_.empty(); }

 private:
  struct Client {
    FairShares<double> shares;                      // By weight.
    std::map<double, std::deque<Request>> waiting;  // By weight; no empty queues.
    int active = 0;                                 // Requests between Add and Leave.
  };

  // Begins the request's part in the shares.
  void Enter(const LiveRequest& request);
  void Deposit(const LiveRequest& request, double tokens);
  // Adds `change` to the number of requests that wait.
  void Count(const LiveRequest& request, int change);
  // If no turn has come, gives it to the next request.
  void ChooseNext();

  std::map<std::string, Client> clients_;  // Those with active requests.
  FairShares<std::string> shares_;         // By client.
  // The requests whose turn has come: preempted ones in the order of their first admission, then at
  // most one other.
  std::deque<Request> turn_;
  int size_ = 0, prompts_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_FAIR_ORDER_H_
