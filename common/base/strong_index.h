// StrongIndex: a 32-bit index that does not mix with other integers. Indices of different kinds do
// not convert into each other, and a number that is only known at run time becomes an index where
// the code says so. Plain data; without a cost at run time.
//
//   NodeIndex node = 0;                     // A constant becomes an index by itself.
//   node = NodeIndex::Of(row);              // Another number does not.
//   tokens[node], node + 1, node < rows     // An index can be used as one.
//   int row = node.value();
#ifndef BASTION_COMMON_BASE_STRONG_INDEX_H_
#define BASTION_COMMON_BASE_STRONG_INDEX_H_

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <utility>

namespace bastion {

// `Kind` tells the indices of one kind from those of others; nothing else uses it.
template <typename Kind>
class StrongIndex {
 public:
  constexpr StrongIndex() = default;
  // Implicit, for constants alone.
  consteval StrongIndex(int value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] static constexpr StrongIndex Of(std::integral auto value) {
    StrongIndex index;
    index.value_ = static_cast<int32_t>(value);
    return index;
  }

  [[nodiscard]] constexpr int32_t value() const { return value_; }
  // For subscripts. Not into other integers, such as those of another kind.
  template <std::same_as<size_t> T>
  constexpr operator T() const {  // NOLINT(google-explicit-constructor)
    return static_cast<size_t>(value_);
  }

  constexpr StrongIndex& operator++() {
    ++value_;
    return *this;
  }
  constexpr StrongIndex& operator+=(int count) {
    value_ += count;
    return *this;
  }
  friend constexpr StrongIndex operator+(StrongIndex a, int count) { return Of(a.value_ + count); }
  friend constexpr StrongIndex operator-(StrongIndex a, int count) { return Of(a.value_ - count); }
  friend constexpr int operator-(StrongIndex a, StrongIndex b) { return a.value_ - b.value_; }

  friend constexpr bool operator==(StrongIndex, StrongIndex) = default;
  friend constexpr auto operator<=>(StrongIndex, StrongIndex) = default;
  // With a number of elements, or a constant.
  friend constexpr bool operator==(StrongIndex a, int b) { return a.value_ == b; }
  friend constexpr auto operator<=>(StrongIndex a, int b) { return a.value_ <=> b; }

  template <typename H>
  friend H AbslHashValue(H h, StrongIndex index) {
    return H::combine(std::move(h), index.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongIndex index) {
    return out << index.value_;
  }

 private:
  int32_t value_ = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_STRONG_INDEX_H_
