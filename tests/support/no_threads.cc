// Replaces pthread_create. With BASTION_NO_THREADS in the environment, a test may not start a
// thread: ctest sets it for the tests that tests/threaded_tests.txt does not name, because the
// thread sanitizer does not run these.
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  if (std::getenv("BASTION_NO_THREADS") != nullptr) {
    std::fputs("this test starts a thread: add its name to tests/threaded_tests.txt\n", stderr);
    std::abort();
  }
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}
