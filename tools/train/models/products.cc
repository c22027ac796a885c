#include "tools/train/models/products.h"

#include <utility>

namespace bastion::train {
namespace {

thread_local bool in_bf16 = false;

}  // namespace

at::Tensor Product(const at::Tensor& rows, const at::Tensor& matrix) {
  return at::linear(rows.to(ProductType()), matrix.to(ProductType())).to(at::kFloat);
}

at::Tensor BatchProduct(const at::Tensor& one, const at::Tensor& other) {
  return at::matmul(one.to(ProductType()), other.to(ProductType())).to(at::kFloat);
}

at::ScalarType ProductType() { return in_bf16 ? at::kBFloat16 : at::kFloat; }

Bf16Products::Bf16Products(bool enabled) : before_(std::exchange(in_bf16, enabled)) {}

Bf16Products::~Bf16Products() { in_bf16 = before_; }

bool HasFastBf16Products() {
  const auto found = at::cpu::get_cpu_capabilities();
  const auto has = [&](const char* name) {
    const auto entry = found.find(name);
    return entry != found.end() && entry->second.isBool() && entry->second.toBool();
  };
  return has("avx512_bf16") || has("amx_bf16");
}

}  // namespace bastion::train
