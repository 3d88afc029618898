// The tile engine's instruction set. A tile is a short run of elements of one compute type, side by
// side and in cache. A kernel is a little program over tiles, load - operate - store, made of the
// functions in these tables; elementwise.cc runs it over the blocks of strided operands.
#pragma once

#include "../../common/dtype.h"
#include "../../common/elementwise.h"

namespace needle {
namespace NEEDLE_ISA {

enum class ComputeType : uint8_t { f32, f64, i32, i64, b8 };
constexpr int kNumComputeTypes = 5;

constexpr ComputeType compute_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return ComputeType::f64;
    case DType::i64: return ComputeType::i64;
    case DType::b8: return ComputeType::b8;
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::u8: return ComputeType::i32;
    default: return ComputeType::f32;
  }
}

// Elements in a tile: three tiles of 8-byte elements take 12 KB, which stays in any L1 cache.
constexpr int64_t kTile = 512;

// A rectangle of at most kTile elements in a strided operand; steps count elements.
struct Block {
  int64_t rows, cols;
};
struct Steps {
  int64_t row, col;
};

using LoadFn = void (*)(void* tile, const char* from, Steps steps, Block block);
using StoreFn = void (*)(char* to, Steps steps, const void* tile, Block block);
using OpFn = void (*)(void* out, const void* const* in, int64_t n);
using CopyFn = void (*)(char* to, Steps to_steps, const char* from, Steps steps, Block block);

struct OpRow {
  OpFn of[kNumComputeTypes];  // nullptr where the formula has no meaning
  ElementwiseKind kind;
};
struct StoreRow {
  StoreFn as[kNumDTypes];
};

// tile_io.cc
extern const LoadFn kLoad[kNumDTypes];           // storage type -> its compute type
extern const StoreRow kStore[kNumComputeTypes];  // compute type -> any storage type
extern const LoadFn kLoadBits[4];                // these by log2 of the element's size
extern const StoreFn kStoreBits[4];
extern const CopyFn kCopyBits[4];

// tile_ops.cc, indexed by UnaryOp and BinaryOp
extern const OpRow kUnary[];
extern const OpRow kBinary[];
extern const OpFn kSelect[4];  // in[0] (bool) ? in[1] : in[2], by log2 of the element's size

}  // namespace NEEDLE_ISA
}  // namespace needle
