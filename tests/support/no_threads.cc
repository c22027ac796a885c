// Replaces pthread_create in tests that tests/threaded_tests.txt does not name. The thread
// sanitizer does not run these tests, so none of them may start a thread.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) noexcept {
  std::fputs("this test starts a thread: add its name to tests/threaded_tests.txt\n", stderr);
  std::abort();
}
