#include "tests/support/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>

#include "common/base/check.h"

namespace bastion::testing {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Key NewKey() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

// `write` writes to the BIO.
template <typename Write>
std::string Pem(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  CHECK_EQ(write(bio.get()), 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string Pem(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  CHECK(extension != nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate NewCertificate(const std::string& name, EVP_PKEY* key, absl::Duration lifetime) {
  static std::atomic<int> serial{1};
  Certificate certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()),
                  static_cast<long>(absl::ToInt64Seconds(lifetime)) - 3600);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

struct TestAuthority::Impl {
  Key key = NewKey();
  Certificate certificate = NewCertificate("test authority", key.get(), absl::Hours(24));
};

TestAuthority::TestAuthority() : impl_(std::make_unique<Impl>()) {
  X509* const own = impl_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE");
  CHECK_GT(X509_sign(own, impl_->key.get(), EVP_sha256()), 0);
}

TestAuthority::~TestAuthority() = default;

std::string TestAuthority::certificate() const { return Pem(impl_->certificate.get()); }

CertificateFiles TestAuthority::Issue(const std::string& name, absl::Duration lifetime) const {
  const Key key = NewKey();
  const Certificate leaf = NewCertificate(name, key.get(), lifetime);
  X509* const issuer = impl_->certificate.get();
  X509_set_issuer_name(leaf.get(), X509_get_subject_name(issuer));
  AddExtension(leaf.get(), issuer, NID_subject_alt_name,
               "DNS:" + name + ",DNS:localhost,IP:127.0.0.1");
  CHECK_GT(X509_sign(leaf.get(), impl_->key.get(), EVP_sha256()), 0);
  return {Pem(leaf.get()), Pem([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace bastion::testing
