// Loads, stores and copies of tiles: everything that knows storage types and strides.
#include <cstddef>

#include "kernels/simd/convert.h"
#include "kernels/transpose.h"
#include "tile.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class To, class From>
NEEDLE_INLINE void cast_run(To* to, const From* from, int64_t n) {
  const int64_t converted = convert_vectors(to, from, n);
#pragma GCC ivdep
  for (int64_t i = converted; i < n; ++i) to[i] = cast<To>(from[i]);
}

template <class To, class From>
NEEDLE_INLINE void cast_row(To* to, int64_t to_step, const From* from, int64_t step, int64_t n) {
  if (to_step == 1 && step == 1) return cast_run(to, from, n);
  if (to_step == 1 && step == 0) {
    const To value = cast<To>(*from);
    for (int64_t i = 0; i < n; ++i) to[i] = value;
    return;
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = cast<To>(from[i * step]);
}

// May blocks be transposed by moving elements of 4 or 8 bytes, and is it worth it for this one?
template <class To, class From>
constexpr bool is_movable = is_same<To, From> && sizeof(To) >= 4;

bool is_transposed(Steps steps, Block block) {
  const bool is_across = steps.row == 1 && steps.col != 1 && steps.col != 0;
  return is_across && block.rows >= 4 && block.cols >= 4;
}

// A short row several times, by copying what is there already.
template <class T>
void repeat_row(T* to, const T* row, Block block) {
  const int64_t size = block.rows * block.cols;
  for (int64_t i = 0; i < block.cols; ++i) to[i] = row[i];
  for (int64_t done = block.cols; done < size;) {
    const int64_t n = done < size - done ? done : size - done;
    __builtin_memcpy(to + done, to, static_cast<size_t>(n) * sizeof(T));
    done += n;
  }
}

bool repeats_short_row(Steps steps, Block block) {
  constexpr int64_t kShort = 64;
  return steps.row == 0 && steps.col == 1 && block.rows > 1 && block.cols < kShort;
}

bool is_dense(Steps steps, Block block) { return steps.col == 1 && steps.row == block.cols; }

template <class To, class From>
void load(void* tile, const char* from, Steps steps, Block block) {
  To* to = static_cast<To*>(tile);
  const From* row = reinterpret_cast<const From*>(from);
  if constexpr (is_movable<To, From>) {
    if (is_transposed(steps, block)) {
      return transpose(to, block.cols, from, steps.col * int64_t{sizeof(From)}, block.cols,
                       block.rows);
    }
    if (repeats_short_row(steps, block)) return repeat_row(to, row, block);
  }
  for (int64_t r = 0; r < block.rows; ++r, to += block.cols, row += steps.row) {
    cast_row(to, 1, row, steps.col, block.cols);
  }
}

template <class To, class From>
void store(char* to, Steps steps, const void* tile, Block block) {
  To* row = reinterpret_cast<To*>(to);
  const From* from = static_cast<const From*>(tile);
  for (int64_t r = 0; r < block.rows; ++r, from += block.cols, row += steps.row) {
    cast_row(row, steps.col, from, 1, block.cols);
  }
}

// A copy of `bytes` that may overlap. A core takes a load for one of what it has just stored if the
// last 12 bits of their addresses agree, and waits: where those of `to` are a little higher than
// those of `from`, the end is copied first. A step of three to the right, 1000 x 997 floats to rows
// of 1000, took 585 us, and takes 55.
void move_bytes(char* to, const char* from, size_t bytes) {
  constexpr size_t kPage = 4096, kNear = 512, kAtOnce = 256;
  const size_t distance = static_cast<size_t>(to - from), above = distance % kPage;
  const bool overlaps = distance < bytes || -distance < bytes;
  if (above > 0 && above < kNear && !overlaps) {
    for (; bytes >= kAtOnce; bytes -= kAtOnce) {
      char some[kAtOnce];
      __builtin_memcpy(some, from + bytes - kAtOnce, kAtOnce);
      __builtin_memcpy(to + bytes - kAtOnce, some, kAtOnce);
    }
  }
  __builtin_memmove(to, from, bytes);
}

// Each of n elements several times.
template <int Times, class T>
void repeat(T* to, const T* from, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (int k = 0; k < Times; ++k) to[i * Times + k] = from[i];
  }
}

template <class T>
void copy_bits(char* to, Steps to_steps, const char* from, Steps steps, Block block) {
  T* to_row = reinterpret_cast<T*>(to);
  const T* row = reinterpret_cast<const T*>(from);
  if constexpr (is_movable<T, T>) {
    if (to_steps.col == 1 && is_transposed(steps, block)) {
      return transpose(to_row, to_steps.row, from, steps.col * int64_t{sizeof(T)}, block.cols,
                       block.rows);
    }
  }
  if (repeats_short_row(steps, block) && is_dense(to_steps, block)) {
    return repeat_row(to_row, row, block);
  }
  if (steps.col == 0 && steps.row == 1 && is_dense(to_steps, block)) {
    if (block.cols == 2) return repeat<2>(to_row, row, block.rows);
    if (block.cols == 3) return repeat<3>(to_row, row, block.rows);
    if (block.cols == 4) return repeat<4>(to_row, row, block.rows);
  }
  for (int64_t r = 0; r < block.rows; ++r, to_row += to_steps.row, row += steps.row) {
    if (to_steps.col == 1 && steps.col == 1) {
      move_bytes(reinterpret_cast<char*>(to_row), reinterpret_cast<const char*>(row),
                 static_cast<size_t>(block.cols) * sizeof(T));
    } else {
      cast_row(to_row, to_steps.col, row, steps.col, block.cols);
    }
  }
}

template <class From>
constexpr StoreRow store_row() {
  return {{store<float, From>, store<double, From>, store<f16_t, From>, store<bf16_t, From>,
           store<int8_t, From>, store<int16_t, From>, store<int32_t, From>, store<int64_t, From>,
           store<uint8_t, From>, store<bool_t, From>}};
}

}  // namespace

constexpr LoadTileFn kLoad[kNumDTypes] = {
    load<float, float>,     load<double, double>,   load<float, f16_t>,     load<float, bf16_t>,
    load<int32_t, int8_t>,  load<int32_t, int16_t>, load<int32_t, int32_t>, load<int64_t, int64_t>,
    load<int32_t, uint8_t>, load<bool_t, bool_t>};

constexpr StoreRow kStore[kNumComputeTypes] = {store_row<float>(), store_row<double>(),
                                               store_row<int32_t>(), store_row<int64_t>(),
                                               store_row<bool_t>()};

constexpr LoadTileFn kLoadBits[4] = {load<uint8_t, uint8_t>, load<uint16_t, uint16_t>,
                                     load<uint32_t, uint32_t>, load<uint64_t, uint64_t>};
constexpr StoreTileFn kStoreBits[4] = {store<uint8_t, uint8_t>, store<uint16_t, uint16_t>,
                                       store<uint32_t, uint32_t>, store<uint64_t, uint64_t>};
constexpr CopyFn kCopyBits[4] = {copy_bits<uint8_t>, copy_bits<uint16_t>, copy_bits<uint32_t>,
                                 copy_bits<uint64_t>};

}  // namespace needle::NEEDLE_ISA
