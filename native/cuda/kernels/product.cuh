// A product of matrices by a block of threads, a tile of C = A B at a time.
//
// A thread sums up an EACH x EACH part of the tile in registers. Steps of DEPTH columns of A and
// rows of B go through shared memory, which has two halves: while one is multiplied, the next step
// is on its way from global memory to registers, and one barrier a step is enough. Everything moves
// in words of 16 bytes where it can:
//
//   shared.a[half][k][row], shared.b[half][k][column]     rows of PITCH numbers
//
// A thread reads its rows, and columns, as kGroups words, kThreads words apart: a warp then reads
// neighbours, without bank conflicts. PITCH leaves a word between rows, so that columns of A, which
// are stored a number at a time when A lies by rows, fall on different banks.
//
// Where the numbers come from is the business of "matrices", which give a word at (side, k): `side`
// is a row of A or a column of B, `by_depth` says that words run along k and not along the side.
#pragma once

#include "operand.cuh"

namespace needle {

// What sums of computed values are taken in: integers wrap around, bools are counted.
template <class Computed>
struct SumOf {
  using Type = Computed;
};
template <>
struct SumOf<i32> {
  using Type = u32;
};
template <>
struct SumOf<b8> {
  using Type = u32;
};
template <>
struct SumOf<i64> {
  using Type = u64;
};
template <class Stored>
using Sum = typename SumOf<Computed<Stored>>::Type;

ELEMENT f32 multiply_add(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
ELEMENT f64 multiply_add(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
ELEMENT u32 multiply_add(u32 a, u32 b, u32 c) { return a * b + c; }
ELEMENT u64 multiply_add(u64 a, u64 b, u64 c) { return a * b + c; }

// n elements that are read or written at once.
template <class T, int n>
struct alignas(sizeof(T) * n) Word {
  T each[n];
};

template <class S>
constexpr int WORD = 16 / static_cast<int>(sizeof(S));

// Can words of T go from and to here, if they run along an axis of `length`?
template <class S, class T>
ELEMENT bool fits_words(const T* data, i64 stride, u32 length) {
  return stride == 1 && length % WORD<S> == 0 &&
         reinterpret_cast<u64>(data) % (sizeof(T) * WORD<S>) == 0;
}

// A strided matrix of T, widened to S. `wide`: words are aligned, and whole ones fit.
template <class S, class T>
struct Strided {
  const T* data;
  i64 side_stride, depth_stride;
  u32 sides, depth;
  bool by_depth, wide;

  ELEMENT Strided(const T* data, i64 side_stride, i64 depth_stride, u32 sides, u32 depth)
      : data(data),
        side_stride(side_stride),
        depth_stride(depth_stride),
        sides(sides),
        depth(depth) {
    by_depth = depth_stride == 1 && side_stride != 1;
    const i64 along = by_depth ? depth_stride : side_stride;
    const i64 across = by_depth ? side_stride : depth_stride;
    wide = across % WORD<S> == 0 && fits_words<S>(data, along, by_depth ? depth : sides);
  }

  ELEMENT void fetch(S (&word)[WORD<S>], u32 side, u32 k) const {
    const bool is_inside = side < sides && k < depth;
    const T* from = data + side * side_stride + k * depth_stride;
    if (wide) {
      Word<T, WORD<S>> found = {};
      if (is_inside) found = *reinterpret_cast<const Word<T, WORD<S>>*>(from);
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) word[i] = static_cast<S>(loaded(found.each[i]));
    } else {
      const u32 room = is_inside ? (by_depth ? depth - k : sides - side) : 0;
      const i64 step = by_depth ? depth_stride : side_stride;
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) {
        word[i] = i < room ? static_cast<S>(loaded(from[i * step])) : S(0);
      }
    }
  }
};

// kThreads x kThreads threads, kGroups words of rows and as many of columns for each.
template <class S, int kThreads, int kGroups, int kDepth = 8>
struct Product {
  static constexpr int SIDE = kThreads * kGroups * WORD<S>;
  static constexpr int EACH = kGroups * WORD<S>;
  static constexpr int DEPTH = kDepth;
  static constexpr int UNROLLED = DEPTH == 8 ? 8 : 4;  // more would take too many registers
  static constexpr int PITCH = SIDE + WORD<S>;
  static constexpr int WORDS = SIDE * DEPTH / WORD<S> / (kThreads * kThreads);  // a thread fetches
  static_assert(WORDS * WORD<S> * kThreads * kThreads == SIDE * DEPTH);

  struct alignas(16) Shared {
    S a[2][DEPTH][PITCH], b[2][DEPTH][PITCH];
  };
  struct Step {
    S words[WORDS][WORD<S>];
  };
  struct Place {
    u32 side, k;
  };

  S sums[EACH][EACH] = {};

  ELEMENT static Place place(int word, bool by_depth) {
    constexpr u32 DOWN = 8 / WORD<S>, ALONG = SIDE / WORD<S>;  // words; 8 numbers of a row at once
    const u32 i = threadIdx.x + word * (kThreads * kThreads);
    if (by_depth) return {i / DOWN % SIDE, i / (DOWN * SIDE) * 8 + i % DOWN * WORD<S>};
    return {i % ALONG * WORD<S>, i / ALONG};
  }

  template <class Matrix>
  ELEMENT static void fetch(Step& step, const Matrix& matrix, u32 side, u32 k) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const Place at = place(w, matrix.by_depth);
      matrix.fetch(step.words[w], side + at.side, k + at.k);
    }
  }

  ELEMENT static void put(S (&to)[DEPTH][PITCH], const Step& step, bool by_depth) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const Place at = place(w, by_depth);
      if (by_depth) {
#pragma unroll
        for (int i = 0; i < WORD<S>; ++i) to[at.k + i][at.side] = step.words[w][i];
      } else {
        Word<S, WORD<S>> word;
#pragma unroll
        for (int i = 0; i < WORD<S>; ++i) word.each[i] = step.words[w][i];
        *reinterpret_cast<Word<S, WORD<S>>*>(&to[at.k][at.side]) = word;
      }
    }
  }

  // The rows (or columns) of this thread, from one row of shared memory.
  ELEMENT static void read(S (&each)[EACH], const S (&row)[PITCH], u32 thread) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const auto word = *reinterpret_cast<const Word<S, WORD<S>>*>(&row[side_of(g, thread)]);
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) each[g * WORD<S> + i] = word.each[i];
    }
  }

  ELEMENT static u32 side_of(int group, u32 thread) {
    return (group * kThreads + thread) * WORD<S>;
  }
  ELEMENT static u32 thread_row() { return threadIdx.x / kThreads; }
  ELEMENT static u32 thread_column() { return threadIdx.x % kThreads; }
  ELEMENT static u32 row(int i) { return side_of(i / WORD<S>, thread_row()) + i % WORD<S>; }
  ELEMENT static u32 column(int j) { return side_of(j / WORD<S>, thread_column()) + j % WORD<S>; }

  // Add the products of columns [begin, end) of A and rows [begin, end) of B.
  template <class A, class B>
  ELEMENT void add(Shared& shared, const A& a, const B& b, u32 row, u32 column, u32 begin,
                   u32 end) {
    Step next_a, next_b;
    fetch(next_a, a, row, begin);
    fetch(next_b, b, column, begin);
    int half = 0;
    for (u32 k = begin; k < end; k += DEPTH, half ^= 1) {
      put(shared.a[half], next_a, a.by_depth);
      put(shared.b[half], next_b, b.by_depth);
      __syncthreads();
      if (k + DEPTH < end) {
        fetch(next_a, a, row, k + DEPTH);
        fetch(next_b, b, column, k + DEPTH);
      }
#pragma unroll UNROLLED
      for (int d = 0; d < DEPTH; ++d) {
        S rows[EACH];
        read(rows, shared.a[half][d], thread_row());
        add_outer(rows, shared.b[half][d]);
      }
    }
  }

  // A panel holds a tile as the left factor of another product, in rows of SIDE numbers. Words of
  // row k lie where k says, so that a warp that writes them, a row for each thread, has no
  // conflicts.
  struct alignas(16) Panel {
    S rows[SIDE][SIDE];
    ELEMENT S* word(u32 k, u32 i) { return &rows[k][(i ^ k / WORD<S> % kThreads) * WORD<S>]; }
  };

  // panel[column][row] = sums
  ELEMENT void put_into(Panel& panel) const {
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        Word<S, WORD<S>> word;
#pragma unroll
        for (int i = 0; i < WORD<S>; ++i) word.each[i] = sums[g * WORD<S> + i][j];
        *reinterpret_cast<Word<S, WORD<S>>*>(panel.word(column(j), g * kThreads + thread_row())) =
            word;
      }
    }
  }

  // Add the product of a panel and as many rows of B, from `begin` on. All threads have passed a
  // barrier since shared was read.
  template <class B>
  ELEMENT void add_panel(Panel& panel, Shared& shared, const B& b, u32 column, u32 begin) {
    Step next;
    fetch(next, b, column, begin);
    int half = 0;
    for (u32 k = 0; k < SIDE && begin + k < b.depth; k += DEPTH, half ^= 1) {
      put(shared.b[half], next, b.by_depth);
      __syncthreads();
      if (k + DEPTH < SIDE) fetch(next, b, column, begin + k + DEPTH);
#pragma unroll UNROLLED
      for (int d = 0; d < DEPTH; ++d) {
        S rows[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
          rows[i] = panel.word(k + d, i / WORD<S> * kThreads + thread_row())[i % WORD<S>];
        }
        add_outer(rows, shared.b[half][d]);
      }
    }
  }

  ELEMENT void add_outer(const S (&rows)[EACH], const S (&row_of_b)[PITCH]) {
    S columns[EACH];
    read(columns, row_of_b, thread_column());
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
      for (int j = 0; j < EACH; ++j) sums[i][j] = multiply_add(rows[i], columns[j], sums[i][j]);
    }
  }

  // Call `body(row, column, word)` for every word of this thread's sums.
  template <class Body>
  ELEMENT void for_each_word(Body body) const {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        S word[WORD<S>];
#pragma unroll
        for (int j = 0; j < WORD<S>; ++j) word[j] = sums[i][g * WORD<S> + j];
        body(row(i), side_of(g, thread_column()), word);
      }
    }
  }
};

// A strided matrix that a product is written or added to. `wide` as for Strided, along columns.
template <class S, class T, bool kAdds = false>
struct Target {
  T* data;
  i64 row_stride, column_stride;
  u32 rows, columns;
  bool wide;

  ELEMENT Target(T* data, i64 row_stride, i64 column_stride, u32 rows, u32 columns)
      : data(data),
        row_stride(row_stride),
        column_stride(column_stride),
        rows(rows),
        columns(columns) {
    wide = row_stride % WORD<S> == 0 && fits_words<S>(data, column_stride, columns);
  }

  ELEMENT void put(u32 row, u32 column, const S (&word)[WORD<S>]) const {
    if (row >= rows || column >= columns) return;
    T* to = data + row * row_stride + column * column_stride;
    if constexpr (kAdds) {
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) {
        if (column + i < columns) to[i * column_stride] += word[i];
      }
    } else if (wide) {
      Word<T, WORD<S>> made;
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) made.each[i] = stored<T>(word[i]);
      *reinterpret_cast<Word<T, WORD<S>>*>(to) = made;
    } else {
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) {
        if (column + i < columns) to[i * column_stride] = stored<T>(word[i]);
      }
    }
  }
};

// Which tile of which part and group (a place of the axes in front) a block makes.
template <class Tile>
struct Task {
  u32 row, column, part, group;

  ELEMENT Task(u32 rows, u32 columns, u32 parts) {
    const u32 across = (columns + Tile::SIDE - 1) / Tile::SIDE;
    const u32 down = (rows + Tile::SIDE - 1) / Tile::SIDE;
    column = blockIdx.x % across * Tile::SIDE;
    row = blockIdx.x / across % down * Tile::SIDE;
    part = blockIdx.x / across / down % parts;
    group = blockIdx.x / across / down / parts;
  }
};

}  // namespace needle
