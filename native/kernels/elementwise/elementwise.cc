// Runs tile programs over strided operands: copy, unary, binary, where. An operand whose block
// already is a tile (contiguous, of the compute type) is used where it lies.
#include "common/elementwise.h"
#include "blocks.h"
#include "kernels/entries.h"
#include "kernels/stream.h"

namespace needle::NEEDLE_ISA {
namespace {

// Load every input, operate, store. Operand 0 is the output.
struct SingleOp {
  LoadTileFn load[kMaxOperands];
  OpFn op;
  StoreTileFn store;
  bool is_native[kMaxOperands];  // stored as the compute type
  bool is_streamed = false;      // the output, past the caches
};

// Elements that are computed before they are streamed. Where two inputs come from memory, reading
// and writing should take turns more often: x + y of 40 MB each reaches 50 GB/s (two threads, Zen
// 4), and 37 with whole tiles.
int64_t streamed_run(const Walk& walk) {
  int from_memory = 0;
  for (int k = 1; k < walk.count; ++k) {
    bool is_broadcast = false;
    for (int d = 0; d < walk.ndim; ++d) is_broadcast |= walk.strides[d][k] == 0;
    from_memory += is_broadcast ? 0 : 1;
  }
  return from_memory > 1 ? kTile / 4 : kTile;
}

// Is an input one value for a row? Not if it is the only one: unary operations read whole tiles.
bool is_one_for_row(const Walk& walk, int k) {
  return k > 0 && walk.count > 2 && walk.strides[walk.ndim - 1][k] == 0;
}

// The longest run that needs no tile: every operand is native and contiguous on the last axis, or
// one value.
int64_t run_limit(const Walk& walk, const SingleOp& program) {
  if (walk.ndim == 0) return kTile;
  if (program.is_streamed) return streamed_run(walk);
  for (int k = 0; k < walk.count; ++k) {
    if (is_one_for_row(walk, k)) continue;
    if (!program.is_native[k] || walk.strides[walk.ndim - 1][k] != 1) return kTile;
  }
  return kGrain;
}

bool is_streamed_to(const View& out, const Walk& walk, int64_t from_bytes = kStreamedBytes) {
  if (!is_streamed(out, from_bytes)) return false;
  for (int k = 1; k < walk.count; ++k) {
    if (walk.data[k] == out.data) return false;
  }
  return true;
}

void run(const SingleOp& program, Walk& walk) {
  const int64_t limit = run_limit(walk, program);
  Block shape = block_shape(walk, limit);
  // Rows that need no tile are computed one after the other: x + row of 256 x 384 took 8.5 us with
  // a block for each, and 6.6 so.
  const bool has_runs = limit > kTile && shape.rows == 1;
  if (has_runs) shape.rows = min_of(walk.rows(), kGrain / shape.cols);
  for_each_block(walk, shape, [&] {
    struct Body {
      const SingleOp& program;
      const Walk& walk;
      const bool has_runs;
      const StreamEnd end{program.is_streamed};
      const void* constant[kMaxOperands];  // one value for all
      alignas(64) char tiles[kMaxOperands][kTile * 8];

      Body(const SingleOp& p, const Walk& w, Block shape, bool runs)
          : program(p), walk(w), has_runs(runs) {
        for (int k = 1; k < walk.count; ++k) {
          constant[k] = nullptr;
          if (!walk.is_constant(k)) continue;
          const bool is_unary = walk.count == 2;
          const int64_t size = is_unary ? min_of(kTile, shape.rows * shape.cols) : kRun;
          program.load[k](tiles[k], walk.data[k], {0, 0}, {1, size});
          constant[k] = tiles[k];
        }
      }

      void operator()(Block block, char* const* at) {
        if (!has_runs || block.rows == 1) return run_block(block, at);
        char* row_at[kMaxOperands];
        for (int k = 0; k < walk.count; ++k) row_at[k] = at[k];
        for (int64_t row = 0; row < block.rows; ++row) {
          run_block({1, block.cols}, row_at);
          for (int k = 0; k < walk.count; ++k) row_at[k] += walk.steps(k).row * walk.item[k];
        }
      }

      void run_block(Block block, char* const* at) {
        Input in[kMaxOperands];
        for (int k = 1; k < walk.count; ++k) {
          const Steps steps = walk.steps(k);
          if (constant[k] != nullptr) {
            in[k - 1] = {constant[k], 0};
          } else if (block.rows == 1 && is_one_for_row(walk, k)) {
            program.load[k](tiles[k], at[k], {0, 0}, {1, kRun});
            in[k - 1] = {tiles[k], 0};
          } else if (program.is_native[k] && is_tile(steps, block)) {
            in[k - 1] = {at[k], kRun};
          } else {
            program.load[k](tiles[k], at[k], steps, block);
            in[k - 1] = {tiles[k], kRun};
          }
        }
        const Steps steps = walk.steps(0);
        const int64_t size = block.rows * block.cols;
        if (!program.is_native[0] || !is_tile(steps, block)) {
          program.op(tiles[0], in, size);
          program.store(at[0], steps, tiles[0], block);
        } else if (program.is_streamed) {
          program.op(tiles[0], in, size);
          stream(at[0], tiles[0], size * walk.item[0]);
        } else {
          program.op(at[0], in, size);
        }
      }
    };
    return Body(program, walk, shape, has_runs);
  });
}

// A program whose inputs have one compute type; `result` is the type of the operation's tile.
SingleOp make_program(const OpRow& row, ComputeType inputs, const View* const* operands,
                      const Walk& walk) {
  const ComputeType result = row.is_predicate ? ComputeType::b8 : inputs;
  const DType out = operands[0]->dtype;
  SingleOp program;
  program.op = row.of[static_cast<int>(inputs)];
  program.store = kStore[static_cast<int>(result)].as[static_cast<int>(out)];
  program.is_native[0] = is_native(out) && compute_type(out) == result;
  program.is_streamed = is_streamed_to(*operands[0], walk, 2 * kStreamedBytes);
  for (int k = 1; k < walk.count; ++k) {
    const DType dtype = operands[k]->dtype;
    program.load[k] = kLoad[static_cast<int>(dtype)];
    program.is_native[k] = is_native(dtype);
  }
  return program;
}

// Moves the operands' bits; both have elements of one size.
void copy_same(Walk& walk, const View& out) {
  const CopyFn copy_block = kCopyBits[log2_size(item_size(out.dtype))];
  Block shape = block_shape(walk, kGrain);
  const bool streams = is_streamed_to(out, walk);
  // Many rows at once: two matrices of 256 x 384 side by side take 16 us instead of 22.
  const bool is_across = walk.steps(1).col != 0 && walk.steps(1).col != 1;
  if ((shape.rows == 1 || !is_across) && !streams)
    shape.rows = min_of(walk.rows(), kGrain / shape.cols);
  for_each_block(walk, shape, [&] {
    return [&, end = StreamEnd{streams}](Block block, char* const* at) {
      if (streams && is_tile(walk.steps(0), block) && is_tile(walk.steps(1), block)) {
        stream(at[0], at[1], block.rows * block.cols * walk.item[0]);
      } else {
        copy_block(at[0], walk.steps(0), at[1], walk.steps(1), block);
      }
    };
  });
}

void copy_cast(Walk& walk, const View& out, DType from) {
  const DType to = out.dtype;
  const bool streams = is_streamed_to(out, walk);
  const LoadTileFn load = kLoad[static_cast<int>(from)];
  const StoreTileFn store = kStore[static_cast<int>(compute_type(from))].as[static_cast<int>(to)];
  const bool native = is_native(from);
  // A run that is cast from where it lies to where it goes needs no tile.
  const bool is_direct = native && !streams && walk.ndim > 0 &&
                         walk.strides[walk.ndim - 1][0] == 1 && walk.strides[walk.ndim - 1][1] == 1;
  const Block shape = block_shape(walk, is_direct ? kGrain : kTile);
  for_each_block(walk, shape, [&] {
    return [&, end = StreamEnd{streams}](Block block, char* const* at) {
      alignas(64) char tile[kTile * 8], result[kTile * 8];
      const void* source = at[1];
      if (!native || !is_tile(walk.steps(1), block)) {
        load(tile, at[1], walk.steps(1), block);
        source = tile;
      }
      if (!streams || !is_tile(walk.steps(0), block)) {
        return store(at[0], walk.steps(0), source, block);
      }
      const int64_t size = block.rows * block.cols;
      store(result, {0, 1}, source, {1, size});
      stream(at[0], result, size * walk.item[0]);
    };
  });
}

bool is_single(const View& view) {
  for (int d = 0; d < view.ndim; ++d) {
    if (view.shape[d] != 1 && view.strides[d] != 0) return false;
  }
  return true;
}

// x to the power 2 is the common case, and pow() takes 50 times as long as a product.
bool is_squaring(BinaryOp op, const View& exponent) {
  if (op != BinaryOp::power || !is_single(exponent)) return false;
  if (exponent.dtype == DType::f32) return *reinterpret_cast<const float*>(exponent.data) == 2;
  if (exponent.dtype == DType::f64) return *reinterpret_cast<const double*>(exponent.data) == 2;
  return false;
}

}  // namespace

bool has_unary(UnaryOp op, DType a) {
  return kUnary[static_cast<int>(op)].of[static_cast<int>(compute_type(a))] != nullptr;
}

bool has_binary(BinaryOp op, DType a) {
  return kBinary[static_cast<int>(op)].of[static_cast<int>(compute_type(a))] != nullptr;
}

void copy(const View& out, const View& a) {
  if (out.size() == 0) return;
  const View* const operands[] = {&out, &a};
  Walk walk = make_walk(operands, 2);
  if (out.dtype == a.dtype) return copy_same(walk, out);
  if (!is_single(a)) return copy_cast(walk, out, a.dtype);
  // One value for all: cast it once.
  alignas(8) char value[8], tile[8];
  kLoad[static_cast<int>(a.dtype)](tile, a.data, {0, 0}, {1, 1});
  kStore[static_cast<int>(compute_type(a.dtype))].as[static_cast<int>(out.dtype)](value, {0, 1},
                                                                                  tile, {1, 1});
  walk.data[1] = value;
  walk.item[1] = item_size(out.dtype);
  copy_same(walk, out);
}

void unary(UnaryOp op, const View& out, const View& a) {
  if (out.size() == 0) return;
  const View* const operands[] = {&out, &a};
  Walk walk = make_walk(operands, 2);
  run(make_program(kUnary[static_cast<int>(op)], compute_type(a.dtype), operands, walk), walk);
}

void binary(BinaryOp op, const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  if (is_squaring(op, b)) return unary(UnaryOp::square, out, a);
  const View* const operands[] = {&out, &a, &b};
  Walk walk = make_walk(operands, 3);
  run(make_program(kBinary[static_cast<int>(op)], compute_type(a.dtype), operands, walk), walk);
}

void where(const View& out, const View& cond, const View& a, const View& b) {
  if (out.size() == 0) return;
  const View* const operands[] = {&out, &cond, &a, &b};
  Walk walk = make_walk(operands, 4);
  // Elements are only moved: tiles hold their bits.
  const int log2_item = log2_size(item_size(out.dtype));
  SingleOp program;
  program.op = kSelect[log2_item];
  program.load[1] = kLoad[static_cast<int>(DType::b8)];
  program.load[2] = program.load[3] = kLoadBits[log2_item];
  program.store = kStoreBits[log2_item];
  for (bool& native : program.is_native) native = true;
  run(program, walk);
}

}  // namespace needle::NEEDLE_ISA
