// Runs tile programs over strided operands: copy, unary, binary, where. An operand whose block
// already is a tile (contiguous, of the compute type) is used where it lies.
#include "blocks.h"
#include "entries.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// Load every input, operate, store. Operand 0 is the output.
struct SingleOp {
  LoadTileFn load[kMaxOperands];
  OpFn op;
  StoreTileFn store;
  bool is_native[kMaxOperands];  // stored as the compute type
};

// The longest run that needs no tile: every operand is native and contiguous on the last axis.
int64_t run_limit(const Walk& walk, const SingleOp& program) {
  if (walk.ndim == 0) return kTile;
  for (int k = 0; k < walk.count; ++k) {
    if (!program.is_native[k] || walk.strides[walk.ndim - 1][k] != 1) return kTile;
  }
  return kGrain;
}

void run(const SingleOp& program, Walk& walk) {
  const Block shape = block_shape(walk, run_limit(walk, program));
  for_each_block(walk, shape, [&] {
    struct Body {
      const SingleOp& program;
      const Walk& walk;
      const void* constant[kMaxOperands];
      alignas(64) char tiles[kMaxOperands][kTile * 8];

      Body(const SingleOp& p, const Walk& w, Block shape) : program(p), walk(w) {
        for (int k = 1; k < walk.count; ++k) {
          constant[k] = nullptr;
          if (!walk.is_constant(k)) continue;
          const int64_t size = lesser(kTile, shape.rows * shape.cols);
          program.load[k](tiles[k], walk.data[k], {0, 0}, {1, size});
          constant[k] = tiles[k];
        }
      }

      void operator()(Block block, char* const* at) {
        const void* in[kMaxOperands];
        for (int k = 1; k < walk.count; ++k) {
          const Steps steps = walk.steps(k);
          if (constant[k] != nullptr) {
            in[k - 1] = constant[k];
          } else if (program.is_native[k] && is_tile(steps, block)) {
            in[k - 1] = at[k];
          } else {
            program.load[k](tiles[k], at[k], steps, block);
            in[k - 1] = tiles[k];
          }
        }
        const Steps steps = walk.steps(0);
        if (program.is_native[0] && is_tile(steps, block)) {
          program.op(at[0], in, block.rows * block.cols);
        } else {
          program.op(tiles[0], in, block.rows * block.cols);
          program.store(at[0], steps, tiles[0], block);
        }
      }
    };
    return Body(program, walk, shape);
  });
}

// A program whose inputs have one compute type; `result` is the type of the operation's tile.
SingleOp make_program(const OpRow& row, ComputeType inputs, const View* const* operands,
                      int count) {
  const ComputeType result = row.kind == ElementwiseKind::predicate ? ComputeType::b8 : inputs;
  const DType out = operands[0]->dtype;
  SingleOp program;
  program.op = row.of[static_cast<int>(inputs)];
  program.store = kStore[static_cast<int>(result)].as[static_cast<int>(out)];
  program.is_native[0] = is_native(out) && compute_type(out) == result;
  for (int k = 1; k < count; ++k) {
    const DType dtype = operands[k]->dtype;
    program.load[k] = kLoad[static_cast<int>(dtype)];
    program.is_native[k] = is_native(dtype);
  }
  return program;
}

// Moves the operands' bits; both have elements of one size.
void copy_same(Walk& walk, int log2_item) {
  const CopyFn copy_block = kCopyBits[log2_item];
  const Block shape = block_shape(walk, kGrain);
  for_each_block(walk, shape, [&] {
    return [&](Block block, char* const* at) {
      copy_block(at[0], walk.steps(0), at[1], walk.steps(1), block);
    };
  });
}

void copy_cast(Walk& walk, DType to, DType from) {
  const LoadTileFn load = kLoad[static_cast<int>(from)];
  const StoreTileFn store = kStore[static_cast<int>(compute_type(from))].as[static_cast<int>(to)];
  const Block shape = block_shape(walk, kTile);
  const bool native = is_native(from);
  for_each_block(walk, shape, [&] {
    return [&](Block block, char* const* at) {
      alignas(64) char tile[kTile * 8];
      if (native && is_tile(walk.steps(1), block)) {
        store(at[0], walk.steps(0), at[1], block);
      } else {
        load(tile, at[1], walk.steps(1), block);
        store(at[0], walk.steps(0), tile, block);
      }
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
  if (out.dtype == a.dtype) return copy_same(walk, log2_size(item_size(a.dtype)));
  if (!is_single(a)) return copy_cast(walk, out.dtype, a.dtype);
  // One value for all: cast it once.
  alignas(8) char value[8], tile[8];
  kLoad[static_cast<int>(a.dtype)](tile, a.data, {0, 0}, {1, 1});
  kStore[static_cast<int>(compute_type(a.dtype))].as[static_cast<int>(out.dtype)](value, {0, 1},
                                                                                  tile, {1, 1});
  walk.data[1] = value;
  walk.item[1] = item_size(out.dtype);
  copy_same(walk, log2_size(item_size(out.dtype)));
}

void unary(UnaryOp op, const View& out, const View& a) {
  if (out.size() == 0) return;
  const View* const operands[] = {&out, &a};
  Walk walk = make_walk(operands, 2);
  run(make_program(kUnary[static_cast<int>(op)], compute_type(a.dtype), operands, 2), walk);
}

void binary(BinaryOp op, const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  if (is_squaring(op, b)) return unary(UnaryOp::square, out, a);
  const View* const operands[] = {&out, &a, &b};
  Walk walk = make_walk(operands, 3);
  run(make_program(kBinary[static_cast<int>(op)], compute_type(a.dtype), operands, 3), walk);
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

}  // namespace NEEDLE_ISA
}  // namespace needle
