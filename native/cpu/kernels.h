// The kernels of one instruction set, as a table of functions. kernels/*.cc are compiled once per
// instruction set, each time in a namespace of its own; isa.cc picks a table when the module loads.
#pragma once

#include <cstdint>

#include "view.h"

namespace needle {

enum class UnaryOp : uint8_t;  // one entry per line of common/elementwise.def
enum class BinaryOp : uint8_t;
enum class ReduceOp : uint8_t { sum, prod, max, min, any, all };
enum class ArgOp : uint8_t { argmax, argmin };
enum class ScanOp : uint8_t { cumsum, cumprod };
enum class ScatterOp : uint8_t { set, add };
enum class RandomOp : uint8_t { uniform, normal };

struct TileProgram;  // program.h

// A convolution's window along depth, height and width; axes that operands lack are like size 1.
struct ConvWindow {
  int64_t stride[3], padding[3], dilation[3];  // padding: before the first input
  int64_t groups;
};

struct KernelTable {
  const char* name;  // "baseline", "avx2", "avx512", "neon"

  // elementwise.cc: inputs already broadcast to out's shape (strides 0)
  bool (*has_unary)(UnaryOp op, DType a);  // is the function defined for this dtype?
  bool (*has_binary)(BinaryOp op, DType a);
  void (*copy)(const View& out, const View& a);  // casts to out's dtype
  void (*unary)(UnaryOp op, const View& out, const View& a);
  void (*binary)(BinaryOp op, const View& out, const View& a, const View& b);
  void (*where)(const View& out, const View& cond, const View& a, const View& b);
  void (*random)(RandomOp op, const View& out, uint64_t seed, uint64_t offset);

  // program.cc: outputs, then inputs, all broadcast to one shape, whose last axes are the row
  void (*run_program)(const TileProgram& program, const View* const* operands, int inner);
  void (*run_each)(const TileProgram& program, const View* const* operands, int calls);

  // reduce.cc
  void (*reduce)(ReduceOp op, const View& out, const View& a);
  void (*arg_reduce)(ArgOp op, const View& out, const View& a, int axis);
  void (*scan)(ScanOp op, const View& out, const View& a, int axis);

  // matmul.cc: a and b have out's number of axes, batch axes already broadcast
  void (*matmul)(const View& out, const View& a, const View& b);

  // conv.cc: images (N, S..., C), filters (K..., C / groups, O), one to three spatial axes
  void (*conv)(const View& out, const View& x, const View& w, const ConvWindow& window);
  void (*conv_by_data)(const View& out, const View& y, const View& w, const ConvWindow& window);
  void (*conv_by_weight)(const View& out, const View& x, const View& y, const ConvWindow& window);

  // index.cc: the indices already broadcast to out's first J axes; n_indices = K
  void (*gather)(const View& out, const View& a, const View* indices, int n_indices);
  void (*scatter)(ScatterOp op, const View& out, const View* indices, int n_indices, const View& a);

  // sort.cc
  void (*argsort)(const View& out, const View& a, int axis, bool descending);
  void (*searchsorted)(const View& out, const View& sorted, const View& values, bool right);
  int64_t (*count_nonzero)(const View& a);
  void (*nonzero)(const View& a, int64_t* coordinates);  // count * ndim, C order
};

const KernelTable& kernels();  // the table in use

// An index outside an axis; the bindings turn it into Python's IndexError.
struct IndexOutOfRange {
  int position;  // of the index operand
  int64_t value, size;
};

// Out of line, so that per-ISA objects define no inline library code (see docs/design.md).
[[noreturn]] void throw_index_error(int position, int64_t value, int64_t size);

}  // namespace needle
