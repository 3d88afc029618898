// The kernels of one instruction set, as a table of functions. kernels/*.cc are compiled once per
// instruction set, each time in a namespace of its own; isa.cc picks a table when the module loads.
#pragma once

#include <cstdint>

#include "view.h"

namespace needle {

enum class UnaryOp : uint8_t;  // one entry per line of common/elementwise.def
enum class BinaryOp : uint8_t;
enum class ReduceOp : uint8_t;  // of common/reduce.def
enum class ArgOp : uint8_t { argmax, argmin };
enum class ScanOp : uint8_t { cumsum, cumprod };
enum class ScatterOp : uint8_t { set, add };
enum class RandomOp : uint8_t { uniform, normal };
enum class RecurrentCell : uint8_t { tanh, relu, lstm, gru };

// Attention's operands: matrices in the last two axes, the axes in front broadcast to one shape.
struct AttentionInputs {
  const View *q, *k, *v;  // (T, D), (S, D), (S, E)
  const View* mask;       // (T, S): bool (which keys are seen), numbers to add, or nullptr
  double scale;
  bool is_causal;
};
struct AttentionAdjoints {
  const View *y, *log_sums;  // forward's results, (T, E) and (T, 1)
  const View *g, *g_log;     // and the adjoints of both
};
struct AttentionOutputs {
  const View *dq, *dk, *dv;
  const View* ds;  // (T, S): the scores', which are the mask's; or nullptr
};

// Of a recurrent cell with G gates that keeps K blocks for backward; nullptr where there is none.
struct RecurrenceInputs {
  const View* x;         // (T, B, G H); forward only
  const View *h0, *c0;   // (B, H); c is an LSTM's
  const View *w, *bias;  // (H, G H), (1, G H)
};
struct RecurrenceOutputs {
  const View *h, *kept;  // (T, B, H), (T, B, K H)
  const View* c_last;    // (B, H); forward only
};
struct RecurrenceAdjoints {
  const View *g_h, *g_c;  // of h and c_last
  const View *dx, *ds;    // (T, B, G H); ds, of what the state adds to the gates, where not dx
  const View *dh0, *dc0;
};

struct TileProgram;  // program.h

// A convolution's window along depth, height and width; axes that operands lack are like size 1.
struct ConvWindow {
  int64_t stride[3], padding[3], dilation[3];  // padding: before the first input
  int64_t groups;
};

// How float32 products may be computed where AMX splits them into bfloat16 (kernels/amx.cc).
enum class MatmulPrecision : uint8_t { highest, high, medium };
MatmulPrecision matmul_precision();

struct KernelTable {
  const char* name;  // "baseline", "avx2", "avx512", "avx512bf16", "amx", "neon"

  // elementwise.cc: inputs already broadcast to out's shape (strides 0)
  bool (*has_unary)(UnaryOp op, DType a);  // is the function defined for this dtype?
  bool (*has_binary)(BinaryOp op, DType a);
  void (*copy)(const View& out, const View& a);  // casts to out's dtype
  void (*unary)(UnaryOp op, const View& out, const View& a);
  void (*binary)(BinaryOp op, const View& out, const View& a, const View& b);
  void (*where)(const View& out, const View& cond, const View& a, const View& b);
  void (*random)(RandomOp op, const View& out, uint64_t seed, uint64_t offset);
  // numbers in [0, 1) from the words first, first + step, ... of a stream, for programs built in C
  void (*draw_uniforms)(float* out, int64_t n, uint64_t seed, uint64_t first, int64_t step);

  // program.cc: outputs, then inputs, all broadcast to one shape, whose last axes are the row
  void (*run_program)(const TileProgram& program, const View* const* operands, int inner);
  void (*run_each)(const TileProgram& program, const View* const* operands, int calls);

  // reduce.cc
  void (*reduce)(ReduceOp op, const View& out, const View& a);

  // along_axis.cc
  void (*arg_reduce)(ArgOp op, const View& out, const View& a, int axis);
  void (*scan)(ScanOp op, const View& out, const View& a, int axis);

  // mix.cc: a sparse matrix, as rows of entries
  void (*mix)(const View& out, const View& a, const View& starts, const View& places,
              const View& weights, int axis);

  // matmul.cc: a and b have out's number of axes, batch axes already broadcast
  void (*matmul)(const View& out, const View& a, const View& b);
  // outputs, a, b, then the program's inputs but the first, which is the product of floats
  void (*matmul_then)(const TileProgram& program, const View* const* operands);
  // outputs, the inputs of the program that computes a, b, then the inputs of `then` (or nullptr:
  // one output) but the first, which is the product of floats
  void (*matmul_of)(const TileProgram& program, const TileProgram* then,
                    const View* const* operands);

  // conv.cc: images (N, S..., C), filters (K..., C / groups, O), one to three spatial axes
  void (*conv)(const View& out, const View& x, const View& w, const ConvWindow& window);
  // outputs, x, w, then the program's inputs but the first, which is the convolution in floats: of
  // this shape (N, P..., O), as a matrix (N P, O)
  void (*conv_then)(const TileProgram& program, const View* const* operands, const int64_t* shape,
                    const ConvWindow& window);
  void (*conv_by_data)(const View& out, const View& y, const View& w, const ConvWindow& window);
  void (*conv_by_weight)(const View& out, const View& x, const View& y, const ConvWindow& window);

  // attention.cc
  void (*attention)(const View& out, const View& log_sums, const AttentionInputs& in);
  void (*attention_backward)(const AttentionOutputs& out, const AttentionInputs& in,
                             const AttentionAdjoints& given);

  // recurrent.cc
  void (*recurrence)(RecurrentCell cell, const RecurrenceOutputs& out, const RecurrenceInputs& in);
  void (*recurrence_backward)(RecurrentCell cell, const RecurrenceAdjoints& adjoints,
                              const RecurrenceOutputs& results, const RecurrenceInputs& in);

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
