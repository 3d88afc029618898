// The tile engine's instruction set. A tile is a short run of elements of one compute type, side by
// side and in cache. A kernel is a little program over tiles, load - operate - store, made of the
// functions in these tables; elementwise.cc runs it over the blocks of strided operands.
#pragma once

#include "common/dtype.h"
#include "tile/blocking.h"

namespace needle::NEEDLE_ISA {

// Elements in a tile: three tiles of 8-byte elements take 12 KB, which stays in any L1 cache.
constexpr int64_t kTile = 512;

// A rectangle of a strided operand, of at most kTile elements where it goes through a tile; steps
// count elements.
struct Block {
  int64_t rows, cols;
};
struct Steps {
  int64_t row, col;
};

using LoadTileFn = void (*)(void* tile, const char* from, Steps steps, Block block);
using StoreTileFn = void (*)(char* to, Steps steps, const void* tile, Block block);

// An input of an operation: a tile, or one value. Loops go over runs of kRun elements; one
// value is kRun copies of it, which every run reads again.
constexpr int64_t kRun = 32;
struct Input {
  const void* at;
  int64_t step;  // elements to the next run: kRun, or 0 for one value
};
using OpFn = void (*)(void* out, const Input* in, int64_t n);
using CopyFn = void (*)(char* to, Steps to_steps, const char* from, Steps steps, Block block);

struct OpRow {
  OpFn of[kNumComputeTypes];  // nullptr where the formula has no meaning
  bool is_predicate;
};
struct PairRow {
  OpFn of[2];  // f32, f64
};
struct StoreRow {
  StoreTileFn as[kNumDTypes];
};

// tile_io.cc
extern const LoadTileFn kLoad[kNumDTypes];       // storage type -> its compute type
extern const StoreRow kStore[kNumComputeTypes];  // compute type -> any storage type
extern const LoadTileFn kLoadBits[4];            // these by log2 of the element's size
extern const StoreTileFn kStoreBits[4];
extern const CopyFn kCopyBits[4];

// tile_ops.cc, indexed by UnaryOp and BinaryOp
extern const OpRow kUnary[];
extern const OpRow kBinary[];
extern const PairRow kPair[];  // by pair_number() of program.h, and kClipPair
extern const OpFn kSelect[4];  // in[0] (bool) ? in[1] : in[2], by log2 of the element's size

// tile_reduce.cc. A row's total is at most 8 bytes wide. Sums of floats also take products. Of an
// upright tile, (cols, rows), elements of all rows are added at once.
struct RowReduction {
  using Add = void (*)(void* totals, const void* tile, int64_t rows, int64_t cols);
  using AddProducts = void (*)(void* totals, const void* a, const void* b, int64_t rows,
                               int64_t cols);

  void (*start)(void* totals, int64_t rows);
  Add add, add_upright;
  AddProducts add_products, add_upright_products;
  void (*finish)(void* out, const void* totals, int64_t rows);
};
struct RowReductionRow {
  RowReduction of[kNumComputeTypes];
};
extern const RowReductionRow kRowReduce[];  // by ReduceOp; those of truth are empty

// Column sums: rows, kRowsAtOnce where there are as many in a tile, are added to sums of the
// tile's type; flush adds those to the totals and clears them, often enough that float sums stay
// accurate.
struct ColumnSum {
  void (*add)(void* sums, const void* tile, int64_t rows, int64_t cols);
  void (*add_products)(void* sums, const void* a, const void* b, int64_t rows, int64_t cols);
  void (*flush)(void* totals, void* sums, int64_t n);
  void (*combine)(void* totals, const void* others, int64_t n);
  ComputeType total;
};
extern const ColumnSum kColumnSum[kNumComputeTypes];

}  // namespace needle::NEEDLE_ISA
