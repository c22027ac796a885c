// FairShares: the service that parties have received, for start-time fair queueing (Goyal, Vin and
// Cheng, 1996). The party with the least service and deposit is served next. The deposit is for
// service that has been granted but not received yet. A party that was idle starts at the level of
// the least served active party, so it cannot save service up. A party that received more than that
// keeps its debt. All amounts are divided by the party's weight. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_FAIR_SHARES_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_FAIR_SHARES_H_

#include <algorithm>
#include <map>

namespace bastion {

template <typename Key>
class FairShares {
 public:
  // The party has one more request that waits or is served.
  void Enter(const Key& party) {
    RaiseLevel();
    Party& entry = parties_[party];
    if (entry.active++ == 0) entry.service = std::max(entry.service, level_);
  }
  // One request of the party has ended. REQUIRES: Enter was called for it.
  void Leave(const Key& party) {
    RaiseLevel();
    --parties_.at(party).active;
    // An idle party at the level or below it has no debt left to remember.
    std::erase_if(parties_, [this](const auto& entry) {
      return entry.second.active == 0 && entry.second.service <= level_;
    });
  }
  // Adds service. REQUIRES: the party is active.
  void Charge(const Key& party, double service) { parties_.at(party).service += service; }
  // Adds to the deposit. Negative: returns some. REQUIRES: the party is active.
  void Deposit(const Key& party, double service) { parties_.at(party).deposit += service; }

  // Service and deposit of an active party.
  [[nodiscard]] double ServiceOf(const Key& party) const {
    const Party& entry = parties_.at(party);
    return entry.service + entry.deposit;
  }
  // Parties that are remembered: the active ones and those with a debt.
  [[nodiscard]] size_t size() const { return parties_.size(); }

 private:
  struct Party {
    double service = 0, deposit = 0;
    int active = 0;  // Requests that wait or are served.
  };

  // Raises level_ to the service of the least served active party.
  void RaiseLevel() {
    const Party* least = nullptr;
    for (const auto& [key, party] : parties_) {
      if (party.active > 0 && (least == nullptr || party.service < least->service)) least = &party;
    }
    if (least != nullptr) level_ = std::max(level_, least->service);
  }

  std::map<Key, Party> parties_;
  double level_ = 0;  // Never falls.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_FAIR_SHARES_H_
