// The order of numbers as the order of unsigned keys: NaN is the largest, and zeros are equal.
#pragma once

#include "operand.cuh"

namespace needle {

ELEMENT u64 key_of(f32 x) {
  const u32 bits = bits_f32(x), sign = 0x80000000;
  if (x != x) return 0xffffffff;
  if (x == 0) return sign;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}
ELEMENT u64 key_of(f64 x) {
  const u64 bits = bits_f64(x), sign = u64(1) << 63;
  if (x != x) return ~u64(0);
  if (x == 0) return sign;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}
ELEMENT u64 key_of(i64 x) { return static_cast<u64>(x) ^ u64(1) << 63; }
ELEMENT u64 key_of(i32 x) { return key_of(i64{x}); }
ELEMENT u64 key_of(b8 x) { return x; }

// How many of the n ascending keys come before `key`: those that are less, and with `after_equals`
// those that are equal.
template <class Keys>
ELEMENT u32 keys_before(const Keys& keys, u32 n, u64 key, bool after_equals) {
  u32 first = 0;
  while (n > 0) {
    const u32 half = n / 2;
    const u64 there = keys(first + half);
    const bool is_before = there < key || (after_equals && there == key);
    first = is_before ? first + half + 1 : first;
    n = is_before ? n - half - 1 : half;
  }
  return first;
}

// Where number i of two sorted runs of `length`, one after the other in n numbers, is in their
// union. Equals keep their order: those of the left run come before those of the right one.
template <class Keys>
ELEMENT u32 merged_place(const Keys& keys, u32 n, u32 length, u32 i, u64 key) {
  const u32 start = i / (2 * length) * (2 * length), middle = min(n, start + length);
  const u32 end = min(n, middle + length);
  const bool is_left = i < middle;
  const u32 other = is_left ? middle : start, others = is_left ? end - middle : middle - start;
  const auto of_other = [&](u32 j) { return keys(other + j); };
  const u32 before = keys_before(of_other, others, key, !is_left);
  return i + before - (is_left ? 0 : middle - start);
}

}  // namespace needle
