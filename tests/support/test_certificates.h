// Certificates for tests, made with OpenSSL.
#ifndef BASTION_TESTS_SUPPORT_TEST_CERTIFICATES_H_
#define BASTION_TESTS_SUPPORT_TEST_CERTIFICATES_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace bastion::testing {

struct CertificateFiles {
  std::string certificate, key;  // PEM
};

// A certificate authority.
class TestAuthority {
 public:
  TestAuthority();
  ~TestAuthority();

  // Its own certificate, as PEM.
  [[nodiscard]] std::string certificate() const;
  // A certificate for `name`, for 127.0.0.1 and for "localhost", valid for `lifetime` from an hour
  // ago.
  [[nodiscard]] CertificateFiles Issue(const std::string& name,
                                       absl::Duration lifetime = absl::Hours(24)) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_TEST_CERTIFICATES_H_
