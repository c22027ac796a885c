// Borrow: passes a temporary to a function that takes a reference. Header-only.
#ifndef BASTION_TESTS_SUPPORT_BORROW_H_
#define BASTION_TESTS_SUPPORT_BORROW_H_

namespace bastion::testing {

// `value`, which lives until the end of the statement.
template <typename T>
[[nodiscard]] T& Borrow(T&& value) {
  return value;
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_BORROW_H_
