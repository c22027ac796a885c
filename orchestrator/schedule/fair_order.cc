#include "orchestrator/schedule/fair_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace bastion {
namespace {

// Moves the requests that `selected` accepts from `from` to `removed`.
void MoveSelected(absl::FunctionRef<bool(const LiveRequest&)> selected,
                  std::deque<FairOrder::Request>& from, std::vector<FairOrder::Request>& removed) {
  const auto kept =
      std::stable_partition(from.begin(), from.end(),
                            [&](const FairOrder::Request& request) { return !selected(*request); });
  removed.insert(removed.end(), std::make_move_iterator(kept), std::make_move_iterator(from.end()));
  from.erase(kept, from.end());
}

}  // namespace

void FairOrder::Enter(const LiveRequest& request) {
  shares_.Enter(request.client());
  Client& client = clients_[request.client()];
  client.shares.Enter(request.weight());
  ++client.active;
}

void FairOrder::Add(Request request) {
  Enter(*request);
  Count(*request, 1);
  clients_.at(request->client()).waiting[request->weight()].push_back(std::move(request));
}

void FairOrder::AddFirst(Request request) {
  Enter(*request);
  AddReturned(std::move(request));
}

void FairOrder::AddPreempted(Request request) {
  Count(*request, 1);
  const auto later = std::find_if(turn_.begin(), turn_.end(), [&](const Request& other) {
    return !other->admitted() || other->admission() > request->admission();
  });
  turn_.insert(later, std::move(request));
}

void FairOrder::AddReturned(Request request) {
  Count(*request, 1);
  clients_.at(request->client()).waiting[request->weight()].push_front(std::move(request));
}

void FairOrder::ChooseNext() {
  if (!turn_.empty()) return;
  const std::string* name = nullptr;
  for (const auto& [other, client] : clients_) {
    if (client.waiting.empty()) continue;
    if (name == nullptr || shares_.ServiceOf(other) < shares_.ServiceOf(*name)) name = &other;
  }
  if (name == nullptr) return;
  Client& client = clients_.at(*name);
  const auto less_service = [&](const auto& a, const auto& b) {
    return client.shares.ServiceOf(a.first) < client.shares.ServiceOf(b.first);
  };
  const auto next = std::min_element(client.waiting.begin(), client.waiting.end(), less_service);
  turn_.push_back(std::move(next->second.front()));
  next->second.pop_front();
  if (next->second.empty()) client.waiting.erase(next);
}

const LiveRequest* FairOrder::Next() {
  ChooseNext();
  return turn_.empty() ? nullptr : turn_.front().get();
}

FairOrder::Request FairOrder::Take() {
  ChooseNext();
  CHECK(!turn_.empty());
  Request request = std::move(turn_.front());
  turn_.pop_front();
  Count(*request, -1);
  Deposit(*request, kSlotDeposit);
  return request;
}

std::vector<FairOrder::Request> FairOrder::Remove(
    absl::FunctionRef<bool(const LiveRequest&)> selected) {
  std::vector<Request> removed;
  MoveSelected(selected, turn_, removed);
  for (auto& [name, client] : clients_) {
    for (auto& [weight, queue] : client.waiting) MoveSelected(selected, queue, removed);
    std::erase_if(client.waiting, [](const auto& entry) { return entry.second.empty(); });
  }
  for (const Request& request : removed) {
    Count(*request, -1);
    Leave(*request);
  }
  return removed;
}

void FairOrder::Charge(const LiveRequest& request, double tokens) {
  const double service = tokens / request.weight();
  shares_.Charge(request.client(), service);
  clients_.at(request.client()).shares.Charge(request.weight(), service);
}

void FairOrder::Deposit(const LiveRequest& request, double tokens) {
  const double service = tokens / request.weight();
  shares_.Deposit(request.client(), service);
  clients_.at(request.client()).shares.Deposit(request.weight(), service);
}

void FairOrder::Count(const LiveRequest& request, int change) {
  size_ += change;
  if (request.answer() == 0) prompts_ += change;
}

void FairOrder::Leave(const LiveRequest& request) {
  shares_.Leave(request.client());
  Client& client = clients_.at(request.client());
  client.shares.Leave(request.weight());
  if (--client.active == 0) clients_.erase(request.client());
}

}  // namespace bastion
