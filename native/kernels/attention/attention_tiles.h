// Tiles of attention scores: what attention.cc makes its two directions of.
//
// A tile is kept transposed, keys down and queries across: the largest score and the sum of a query
// then run down a lane, and nothing is reduced across lanes. Of all operands only q (and, backward,
// y's adjoint) is transposed, once for a block of queries; the others are read where they are.
#pragma once

#include "kernels/entries.h"
#include "kernels/gemm/brgemm.h"
#include "kernels/math/vec_math.h"
#include "kernels/transpose.h"
#include "kernels/workspace.h"

namespace needle::NEEDLE_ISA {
namespace {

// A tile: 32 KB of floats, of which a column of 14 queries and 128 keys stays in the first-level
// cache beside the values that it multiplies.
constexpr int64_t kQueries = 64, kKeys = 128;

// Where the diagonal of causal scores crosses a tile, it is cut into stripes of so many keys or
// queries, each only as long as something in it is seen.
constexpr int64_t kStripe = 16;
static_assert(kQueries % kStripe == 0 && kKeys % kQueries == 0);

constexpr int64_t kRowsShareSets = 512;  // bytes: rows so far apart fall on few sets of a cache

struct Span {
  int64_t begin, count;
};

template <class T>
struct Panel {
  const T* data;
  int64_t step;
};

// The matrix of one head: rows of elements of any dtype, steps in bytes.
template <class T>
struct Rows {
  const char* data;
  int64_t row, col;
  Source<T> source;

  // Rows of `width` Ts side by side, to be read many times: where they are, or copied to `buffer`.
  Panel<T> read(Span rows, int64_t width, T* buffer) const {
    return row % kRowsShareSets != 0 ? read_once(rows, width, buffer) : copy(rows, width, buffer);
  }
  Panel<T> read_once(Span rows, int64_t width, T* buffer) const {
    if (!source.is_plain || col != static_cast<int64_t>(sizeof(T)))
      return copy(rows, width, buffer);
    return {reinterpret_cast<const T*>(data + rows.begin * row),
            row / static_cast<int64_t>(sizeof(T))};
  }
  Panel<T> copy(Span rows, int64_t width, T* buffer) const {
    const char* const from = data + rows.begin * row;
    for (int64_t i = 0; i < rows.count; ++i) {
      source.load(buffer + i * width, from + i * row, col, width);
    }
    return {buffer, width};
  }
};

template <class T>
struct Target {
  char* data;
  int64_t row, col;
  StoreFn<T> store;

  // Rows of `width` Ts, times `factor`.
  void write(Span rows, int64_t width, T* from, T factor) const {
    for (int64_t i = 0; i < rows.count; ++i) {
      T* const line = from + i * width;
      if (factor != 1) {
        for (int64_t x = 0; x < width; ++x) line[x] *= factor;
      }
      store(data + (rows.begin + i) * row, col, line, width);
    }
  }
};

// Where the matrix of a head begins; the axes in front of the last two count heads in C order.
inline char* head_of(const View& view, int64_t head) {
  int64_t offset = 0;
  for (int d = view.ndim - 3; d >= 0; --d) {
    offset += head % view.shape[d] * view.strides[d];
    head /= view.shape[d];
  }
  return view.data + offset * item_size(view.dtype);
}

template <class T>
Rows<T> rows_of(const View& view, int64_t head) {
  const Source<T> source =
      view.dtype == DType::b8 ? source_of<T, bool_t>(view.dtype) : source_of<T, T>(view.dtype);
  return {head_of(view, head), byte_stride(view, view.ndim - 2), byte_stride(view, view.ndim - 1),
          source};
}

template <class T>
Target<T> target_of(const View& view, int64_t head) {
  return {head_of(view, head), byte_stride(view, view.ndim - 2), byte_stride(view, view.ndim - 1),
          store_of<T>(view.dtype)};
}

template <class T>
void multiply(T* c, int64_t c_row, int64_t rows, int64_t cols, const T* a, int64_t a_row,
              int64_t a_col, Panel<T> b, int64_t depth, bool accumulate) {
  const Panels<T> panels = {a, b.data};
  multiply_panels<T>({&panels, 1, depth, a_row, a_col, b.step}, c, c_row, rows, cols, accumulate,
                     block_rows<T>(cols));
}

// turned[x][i] = factor * row i's element x; lanes behind the last row are 0.
template <class T>
void turn(T* turned, Panel<T> rows, int64_t count, int64_t width, T factor) {
  if (count < kQueries) __builtin_memset(turned, 0, width * kQueries * sizeof(T));
  transpose(turned, kQueries, reinterpret_cast<const char*>(rows.data),
            rows.step * static_cast<int64_t>(sizeof(T)), count, width);
  if (factor == 1) return;
  for (int64_t x = 0; x < width * kQueries; ++x) turned[x] *= factor;
}

// What both directions share: sizes, and the tiles of scores of one head.
template <class T>
class Scores {
 public:
  explicit Scores(const AttentionInputs& in)
      : queries(in.q->shape[in.q->ndim - 2]),
        keys(in.k->shape[in.k->ndim - 2]),
        size(in.q->shape[in.q->ndim - 1]),
        width(in.v->shape[in.v->ndim - 1]),
        scale(static_cast<T>(in.scale)),
        heads(1),
        in_(in) {
    for (int d = 0; d < in.q->ndim - 2; ++d) heads *= in.q->shape[d];
  }

  // Keys that some query of the block sees.
  int64_t seen_by(Span block) const {
    return in_.is_causal ? min_of(keys, block.begin + block.count) : keys;
  }

  Rows<T> mask_of(int64_t head) const {
    return in_.mask != nullptr ? rows_of<T>(*in_.mask, head) : Rows<T>{};
  }

  // Calls body(keys, i): none of the block's queries before the i-th sees these keys of the tile.
  template <class F>
  NEEDLE_INLINE void for_key_stripes(Span block, Span columns, const F& body) const {
    for (int64_t j = 0, end; j < columns.count; j = end) {
      const int64_t below = block.begin - columns.begin;  // how many keys all queries see
      const bool is_whole = !in_.is_causal || j < below;
      end = min_of(columns.count, !in_.is_causal ? columns.count : is_whole ? below : j + kStripe);
      body(Span{j, end - j}, is_whole ? 0 : j - below);
    }
  }

  // Calls body(queries, keys): these queries see at most so many keys of the tile.
  template <class F>
  NEEDLE_INLINE void for_query_stripes(Span block, Span columns, const F& body) const {
    const int64_t above = block.begin - columns.begin;
    const bool is_whole = !in_.is_causal || above >= columns.count;
    for (int64_t i = 0, end; i < block.count; i = end) {
      end = is_whole ? block.count : min_of(block.count, i + kStripe);
      const int64_t seen = is_whole ? columns.count : min_of(columns.count, above + i + kStripe);
      body(Span{i, end - i}, seen);
    }
  }

  // tile[j][i] = score of query i and key j; -inf where it is not seen, and nothing where no query
  // of the stripe sees it.
  void make_tile(T* tile, Panel<T> k, const T* turned_q, const Rows<T>& mask, Span block,
                 Span columns) const {
    multiply_turned(tile, k, turned_q, size, block, columns);
    if (in_.mask != nullptr) add_mask(tile, mask, block, columns);
    if (!in_.is_causal) return;
    for (int64_t j = max_of(0, block.begin - columns.begin + 1); j < columns.count; ++j) {
      const int64_t unseen = min_of(block.count, columns.begin + j - block.begin);
      for (int64_t i = unseen / kStripe * kStripe; i < unseen; ++i) {
        tile[j * kQueries + i] = kNever;
      }
    }
  }

  // tile[j][i] = Σ rows[j][x] turned[x][i]
  void multiply_turned(T* tile, Panel<T> rows, const T* turned, int64_t depth, Span block,
                       Span columns) const {
    for_key_stripes(block, columns, [&](Span keys, int64_t i) {
      multiply(tile + keys.begin * kQueries + i, kQueries, keys.count, lanes_of(block) - i,
               rows.data + keys.begin * rows.step, rows.step, int64_t{1},
               Panel<T>{turned + i, kQueries}, depth, false);
    });
  }

  // sums[j][x] += Σ tile[j][i] rows[i][x]
  void add_to_keys(T* sums, const T* tile, Panel<T> rows, int64_t cols, Span block,
                   Span columns) const {
    for_key_stripes(block, columns, [&](Span keys, int64_t i) {
      multiply(sums + keys.begin * cols, cols, keys.count, cols, tile + keys.begin * kQueries + i,
               kQueries, int64_t{1}, Panel<T>{rows.data + i * rows.step, rows.step},
               block.count - i, true);
    });
  }

  // sums[i][x] += Σ tile[j][i] rows[j][x]
  void add_to_queries(T* sums, const T* tile, Panel<T> rows, int64_t cols, Span block,
                      Span columns) const {
    for_query_stripes(block, columns, [&](Span queries, int64_t keys) {
      multiply(sums + queries.begin * cols, cols, queries.count, cols, tile + queries.begin,
               int64_t{1}, kQueries, rows, keys, true);
    });
  }

  // Whole vectors: lanes behind the last query hold zeros.
  static int64_t lanes_of(Span block) { return ceil_div(block.count, kLanes<T>) * kLanes<T>; }

  const int64_t queries, keys, size, width;
  const T scale;
  int64_t heads;

  static constexpr T kNever = -static_cast<T>(__builtin_inf());

 private:
  void add_mask(T* tile, const Rows<T>& mask, Span block, Span columns) const {
    const bool chooses = in_.mask->dtype == DType::b8;
    T line[kQueries];
    for (int64_t j = 0; j < columns.count; ++j, tile += kQueries) {
      const char* const from = mask.data + block.begin * mask.row + (columns.begin + j) * mask.col;
      mask.source.load(line, from, mask.row, block.count);
      for (int64_t i = 0; i < block.count; ++i) {
        tile[i] = !chooses ? tile[i] + line[i] : line[i] != 0 ? tile[i] : kNever;
      }
    }
  }

  const AttentionInputs& in_;
};

// -inf is the level of a query that sees nothing: 0 keeps its e^(s - level) at 0.
template <class T>
NEEDLE_INLINE Vec<T> level_of(Vec<T> highest) {
  return highest == Scores<T>::kNever ? Vec<T>{} : highest;
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
