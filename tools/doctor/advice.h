// Plain sentences about what a report means. Each names the figure that it rests on. Thread-safe:
// no state.
#ifndef BASTION_TOOLS_DOCTOR_ADVICE_H_
#define BASTION_TOOLS_DOCTOR_ADVICE_H_

#include <string>
#include <vector>

#include "tools/doctor/service_report.h"

namespace bastion::doctor {

// What to know and what to do, most important first. REQUIRES: the report has a level.
[[nodiscard]] std::vector<std::string> AdviceOn(const ServiceReport& report);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_ADVICE_H_
