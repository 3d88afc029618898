// Stable sorting of (key, index) pairs by unsigned keys: insertion for a few, merging for some,
// radix for many.
#pragma once

#include "kernels/loops.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class Key>
struct Entry {
  Key key;
  Key index;
};

// Keys in the order of the values: NaN above all, the two zeros equal.
inline uint32_t key_of(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
inline uint64_t key_of(int64_t x) { return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63); }
inline uint32_t key_of(float x) {
  if (x != x) return UINT32_MAX;
  const uint32_t bits = __builtin_bit_cast(uint32_t, x + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
inline uint64_t key_of(double x) {
  if (x != x) return UINT64_MAX;
  const uint64_t bits = __builtin_bit_cast(uint64_t, x + 0.0);
  return bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
}

constexpr int64_t kInsertion = 16, kRadix = 256;

template <class Key>
void insertion_sort(Entry<Key>* entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Entry<Key> entry = entries[i];
    int64_t at = i;
    for (; at > 0 && entry.key < entries[at - 1].key; --at) entries[at] = entries[at - 1];
    entries[at] = entry;
  }
}

// Merges the sorted halves [0, middle) and [middle, n); of equal keys the left comes first.
template <class Key>
void merge(Entry<Key>* to, const Entry<Key>* from, int64_t middle, int64_t n) {
  int64_t left = 0, right = middle;
  for (int64_t i = 0; i < n; ++i) {
    const bool take_left = right == n || (left < middle && from[left].key <= from[right].key);
    to[i] = from[take_left ? left++ : right++];
  }
}

template <class Key>
Entry<Key>* merge_sort(Entry<Key>* entries, Entry<Key>* spare, int64_t n) {
  for (int64_t i = 0; i < n; i += kInsertion) {
    insertion_sort(entries + i, min_of(kInsertion, n - i));
  }
  for (int64_t width = kInsertion; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      const int64_t count = min_of(2 * width, n - i);
      merge(spare + i, entries + i, min_of(width, count), count);
    }
    Entry<Key>* const sorted = spare;
    spare = entries;
    entries = sorted;
  }
  return entries;
}

// From the lowest byte of the key to the highest; bytes that all keys share are skipped.
template <class Key>
Entry<Key>* radix_sort(Entry<Key>* entries, Entry<Key>* spare, int64_t n) {
  constexpr int kDigits = sizeof(Key);
  int64_t counts[kDigits][256] = {};
  for_each_stretch(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int d = 0; d < kDigits; ++d) ++counts[d][entries[i].key >> (8 * d) & 255];
    }
  });
  for (int d = 0; d < kDigits; ++d) {
    int64_t* const starts = counts[d];
    if (starts[entries[0].key >> (8 * d) & 255] == n) continue;
    int64_t next = 0;
    for (int digit = 0; digit < 256; ++digit) {
      const int64_t count = starts[digit];
      starts[digit] = next;
      next += count;
    }
    for_each_stretch(n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        spare[starts[entries[i].key >> (8 * d) & 255]++] = entries[i];
      }
    });
    Entry<Key>* const sorted = spare;
    spare = entries;
    entries = sorted;
  }
  return entries;
}

// Sorts n entries with the help of n spare ones; the result is in either of the two.
template <class Key>
Entry<Key>* sort_entries(Entry<Key>* entries, Entry<Key>* spare, int64_t n) {
  return n < kRadix ? merge_sort(entries, spare, n) : radix_sort(entries, spare, n);
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
