// How elementwise kernels walk their operands: axes dropped, ordered and merged, then cut into
// blocks that fit a tile.
#pragma once

#include "common/view.h"
#include "core/parallel.h"
#include "kernels/loops.h"
#include "kernels/tile/tile.h"
#include "tile/program.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int kMaxOperands = kMaxProgramOperands + 1;  // outputs, inputs, a random stream

// Elements in one piece of parallel_for, given how many they are in small arrays: 32 pieces, but
// none longer than a core writes in 10 us or so. Each begins by looking at all operands. Adam of 10
// million numbers took 5.5 ms with pieces of 4096.
constexpr int64_t grain_of(int64_t elements, int64_t least = kGrain) {
  constexpr int64_t kPieces = 32, kLongest = 1 << 16;
  const int64_t even = elements / kPieces;
  return max_of(least, min_of(kLongest, even));
}

// The axes of all operands together, outermost first. After plan() the last two are those of
// blocks, and ndim >= 2.
struct Walk {
  int count;  // of operands
  int ndim;
  int64_t shape[kMaxDims + 2];
  int64_t strides[kMaxDims + 2][kMaxOperands];  // in elements
  char* data[kMaxOperands];
  int64_t item[kMaxOperands];  // bytes of an element

  int64_t rows() const { return shape[ndim - 2]; }
  int64_t cols() const { return shape[ndim - 1]; }
  Steps steps(int k) const { return {strides[ndim - 2][k], strides[ndim - 1][k]}; }

  bool is_constant(int k) const {  // one element, broadcast along every axis
    for (int d = 0; d < ndim; ++d) {
      if (strides[d][k] != 0) return false;
    }
    return true;
  }
};

inline void move_axis(Walk& walk, int from, int to) {
  const int step = from < to ? 1 : -1;
  for (int d = from; d != to; d += step) {
    const int64_t n = walk.shape[d];
    walk.shape[d] = walk.shape[d + step];
    walk.shape[d + step] = n;
    for (int k = 0; k < walk.count; ++k) {
      const int64_t s = walk.strides[d][k];
      walk.strides[d][k] = walk.strides[d + step][k];
      walk.strides[d + step][k] = s;
    }
  }
}

inline bool axes_merge(const Walk& walk, int d) {  // d and d + 1
  for (int k = 0; k < walk.count; ++k) {
    if (walk.strides[d][k] != walk.strides[d + 1][k] * walk.shape[d + 1]) return false;
  }
  return true;
}

// Neighbouring axes that every operand steps over evenly become one.
inline void merge_axes(Walk& walk) {
  int last = 0;
  for (int d = 1; d < walk.ndim; ++d) {
    walk.shape[last + 1] = walk.shape[d];
    for (int k = 0; k < walk.count; ++k) walk.strides[last + 1][k] = walk.strides[d][k];
    if (!axes_merge(walk, last)) {
      ++last;
      continue;
    }
    walk.shape[last] *= walk.shape[d];
    for (int k = 0; k < walk.count; ++k) walk.strides[last][k] = walk.strides[d][k];
  }
  walk.ndim = walk.ndim == 0 ? 0 : last + 1;
}

// Axes ordered by the first operand's strides, so that it is written in the order of memory.
inline void order_axes(Walk& walk) {
  for (int d = 1; d < walk.ndim; ++d) {
    int to = d;
    const int64_t stride = length_of(walk.strides[d][0]);
    while (to > 0 && length_of(walk.strides[to - 1][0]) < stride) --to;
    if (to != d) move_axis(walk, d, to);
  }
}

// The axes of operands that were broadcast to one shape; operand 0 is an output.
// Axes of one element are left out.
inline Walk walk_over(const View* const* operands, int count, int first_axis, int end_axis) {
  const View& out = *operands[0];
  Walk walk;
  walk.count = count;
  walk.ndim = 0;
  for (int k = 0; k < count; ++k) {
    walk.data[k] = operands[k]->data;
    walk.item[k] = item_size(operands[k]->dtype);
  }
  for (int d = first_axis; d < end_axis; ++d) {
    if (out.shape[d] == 1) continue;
    walk.shape[walk.ndim] = out.shape[d];
    for (int k = 0; k < count; ++k) walk.strides[walk.ndim][k] = operands[k]->strides[d];
    ++walk.ndim;
  }
  return walk;
}

inline Walk make_walk(const View* const* operands, int count) {
  Walk walk = walk_over(operands, count, 0, operands[0]->ndim);
  order_axes(walk);
  merge_axes(walk);
  return walk;
}

// An input that steps far along the last axis and near along another is read transposed: brings
// that axis to the second place, for blocks that use whole cache lines of it.
inline bool find_transposed(Walk& walk) {
  const int last = walk.ndim - 1;
  for (int k = 1; k < walk.count; ++k) {
    int nearest = last;
    for (int d = 0; d < last; ++d) {
      const int64_t stride = length_of(walk.strides[d][k]);
      if (stride != 0 && stride < length_of(walk.strides[nearest][k])) nearest = d;
    }
    if (nearest == last) continue;
    move_axis(walk, nearest, last - 1);
    return true;
  }
  return false;
}

constexpr int64_t kLongRow = 128;  // one row is worth a block

// Axes of one element in front, until there are the two of blocks.
inline void pad_axes(Walk& walk) {
  while (walk.ndim < 2) {
    for (int d = walk.ndim; d > 0; --d) {
      walk.shape[d] = walk.shape[d - 1];
      for (int k = 0; k < walk.count; ++k) walk.strides[d][k] = walk.strides[d - 1][k];
    }
    walk.shape[0] = 1;
    for (int k = 0; k < walk.count; ++k) walk.strides[0][k] = 0;
    ++walk.ndim;
  }
}

// The shape of blocks of up to `tile` elements; a run may be `limit` long when no tile is needed.
inline Block block_shape(Walk& walk, int64_t limit, int64_t tile = kTile) {
  const bool transposed = walk.ndim > 1 && find_transposed(walk);
  pad_axes(walk);
  if (transposed) {
    const int64_t rows = min_of(walk.rows(), kLineRows);
    return {rows, min_of(walk.cols(), tile / rows)};
  }
  if (walk.cols() >= kLongRow) return {1, min_of(walk.cols(), limit)};
  return {min_of(walk.rows(), tile / walk.cols()), walk.cols()};
}

// A position among the blocks of a walk, in the order of the output's memory.
class BlockCursor {
 public:
  BlockCursor(const Walk& walk, Block shape, int64_t linear) : walk_(walk), shape_(shape) {
    const int64_t col_blocks = ceil_div(walk.cols(), shape.cols);
    const int64_t row_blocks = ceil_div(walk.rows(), shape.rows);
    col_ = linear % col_blocks * shape.cols;
    linear /= col_blocks;
    row_ = linear % row_blocks * shape.rows;
    linear /= row_blocks;
    for (int d = walk.ndim - 3; d >= 0; --d) {
      index_[d] = linear % walk.shape[d];
      linear /= walk.shape[d];
    }
    for (int k = 0; k < walk.count; ++k) {
      const Steps steps = walk.steps(k);
      row_bytes_[k] = shape.rows * steps.row * walk.item[k];
      col_bytes_[k] = shape.cols * steps.col * walk.item[k];
      int64_t offset = row_ * steps.row;
      for (int d = walk.ndim - 3; d >= 0; --d) offset += index_[d] * walk.strides[d][k];
      line_[k] = walk.data[k] + offset * walk.item[k];
      at_[k] = line_[k] + col_ * steps.col * walk.item[k];
    }
  }

  // The block's size (smaller at the edges), and each operand's address in `at`.
  Block locate(char** at) const {
    for (int k = 0; k < walk_.count; ++k) at[k] = at_[k];
    return {min_of(shape_.rows, walk_.rows() - row_), min_of(shape_.cols, walk_.cols() - col_)};
  }

  void next() {
    if ((col_ += shape_.cols) < walk_.cols()) {
      for (int k = 0; k < walk_.count; ++k) at_[k] += col_bytes_[k];
      return;
    }
    col_ = 0;
    if ((row_ += shape_.rows) < walk_.rows()) {
      for (int k = 0; k < walk_.count; ++k) at_[k] = line_[k] += row_bytes_[k];
      return;
    }
    const int64_t first = (row_ - 1) / shape_.rows;  // blocks of rows that were passed
    for (int k = 0; k < walk_.count; ++k) line_[k] -= first * row_bytes_[k];
    row_ = 0;
    for (int d = walk_.ndim - 3; d >= 0; --d) {
      move(d, 1);
      if (++index_[d] < walk_.shape[d]) break;
      move(d, -index_[d]);
      index_[d] = 0;
    }
    for (int k = 0; k < walk_.count; ++k) at_[k] = line_[k];
  }

 private:
  void move(int d, int64_t count) {
    for (int k = 0; k < walk_.count; ++k) {
      line_[k] += count * walk_.strides[d][k] * walk_.item[k];
    }
  }

  const Walk& walk_;
  const Block shape_;
  int64_t row_, col_;
  int64_t index_[kMaxDims];                                    // on the axes outside of blocks
  char *line_[kMaxOperands], *at_[kMaxOperands];               // column 0 of these rows; the block
  int64_t row_bytes_[kMaxOperands], col_bytes_[kMaxOperands];  // to the next block
};

// Elements in the order of a tile, side by side?
inline bool is_tile(Steps steps, Block block) {
  return (block.cols == 1 || steps.col == 1) && (block.rows == 1 || steps.row == block.cols);
}

constexpr int log2_size(int bytes) { return __builtin_ctz(static_cast<unsigned>(bytes)); }

// Calls body(block, addresses) for every block, in parallel; `setup` makes one body per piece.
template <class Setup>
inline void for_each_block(const Walk& walk, Block shape, const Setup& setup) {
  int64_t total = ceil_div(walk.cols(), shape.cols) * ceil_div(walk.rows(), shape.rows);
  for (int d = 0; d < walk.ndim - 2; ++d) total *= walk.shape[d];
  const int64_t block_size = shape.rows * shape.cols, least = grain_of(total * block_size);
  const int64_t grain = block_size >= least ? 1 : least / block_size;
  parallel_for(total, grain, [&](int64_t begin, int64_t end) {
    auto&& body = setup();
    BlockCursor cursor(walk, shape, begin);
    for (int64_t b = begin; b < end; ++b, cursor.next()) {
      char* at[kMaxOperands];
      const Block block = cursor.locate(at);
      body(block, at);
    }
  });
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
