// EngineMeter: what the engine of a service does, for clients that ask (EngineActivity).
// Thread-safe.
#ifndef BASTION_COMMON_STAGES_ENGINE_METER_H_
#define BASTION_COMMON_STAGES_ENGINE_METER_H_

#include <atomic>

#include "common/base/engine_progress.h"
#include "common/base/siphash.h"
#include "common/stages/stage_data.h"

namespace bastion {

class EngineMeter {
 public:
  // A call of the engine, from its arrival to its reply.
  class Call {
   public:
    explicit Call(EngineMeter* meter) : meter_(meter) {
      CountProgress();
      ++meter_->calls_;
    }
    ~Call() {
      CountProgress();
      --meter_->calls_;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    EngineMeter* const meter_;
  };

  [[nodiscard]] EngineActivity activity() const { return {instance_, ProgressCount(), calls_ > 0}; }

 private:
  const uint64_t instance_ = RandomKey().low;
  std::atomic<int> calls_{0};
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_ENGINE_METER_H_
