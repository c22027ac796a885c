#include "common/telemetry/span.h"

namespace bastion {

void Span::Set(const char* name, bool value) { attributes.emplace_back(name, value); }
void Span::Set(const char* name, int64_t value) { attributes.emplace_back(name, value); }
void Span::Set(const char* name, double value) { attributes.emplace_back(name, value); }
void Span::Set(const char* name, std::string value) {
  attributes.emplace_back(name, std::move(value));
}

}  // namespace bastion
