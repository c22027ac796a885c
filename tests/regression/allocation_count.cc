#include "tests/regression/allocation_count.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<int64_t> counted{0}, bytes_counted{0};

void Count(size_t bytes) {
  counted.fetch_add(1, std::memory_order_relaxed);
  bytes_counted.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

}  // namespace

// glibc lets a program replace these functions and keeps its own versions under other names.
extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  Count(bytes);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  Count(count * bytes);
  return __libc_calloc(count, bytes);
}

void* realloc(void* old, size_t bytes) {
  Count(bytes);
  return __libc_realloc(old, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  Count(bytes);
  return __libc_memalign(alignment, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  Count(bytes);
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** out, size_t alignment, size_t bytes) {
  Count(bytes);
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

}  // extern "C"

namespace bastion::testing {

Allocations AllocationsSoFar() {
  return {counted.load(std::memory_order_relaxed), bytes_counted.load(std::memory_order_relaxed)};
}

}  // namespace bastion::testing
