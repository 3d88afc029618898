// The kernels of one instruction set, as declared to each other and gathered by table.cc.
#pragma once

#include "../kernels.h"

namespace needle {
namespace NEEDLE_ISA {

bool has_unary(UnaryOp op, DType a);
bool has_binary(BinaryOp op, DType a);
void copy(const View& out, const View& a);
void unary(UnaryOp op, const View& out, const View& a);
void binary(BinaryOp op, const View& out, const View& a, const View& b);
void where(const View& out, const View& cond, const View& a, const View& b);
void random(RandomOp op, const View& out, uint64_t seed, uint64_t offset);

void run_program(const TileProgram& program, const View* const* operands, int inner);
void run_each(const TileProgram& program, const View* const* operands, int calls);

void reduce(ReduceOp op, const View& out, const View& a);
void arg_reduce(ArgOp op, const View& out, const View& a, int axis);
void scan(ScanOp op, const View& out, const View& a, int axis);
void mix(const View& out, const View& a, const View& starts, const View& places,
         const View& weights, int axis);

void matmul(const View& out, const View& a, const View& b);
void matmul_then(const TileProgram& program, const View* const* operands);
void matmul_of(const TileProgram& program, const TileProgram* then, const View* const* operands);
void matmul_bf16(const View& out, const View& a, const View& b);  // avx512 only
void matmul_amx(const View& out, const View& a, const View& b);   // avx512 and wide only
void matmul_then_amx(const TileProgram& program, const View* const* operands);
void matmul_of_amx(const TileProgram& program, const TileProgram* then,
                   const View* const* operands);

void conv(const View& out, const View& x, const View& w, const ConvWindow& window);
void conv_then(const TileProgram& program, const View* const* operands, const int64_t* shape,
               const ConvWindow& window);
void conv_by_data(const View& out, const View& y, const View& w, const ConvWindow& window);
void conv_by_weight(const View& out, const View& x, const View& y, const ConvWindow& window);

void attention(const View& out, const View& log_sums, const AttentionInputs& in);
void attention_backward(const AttentionOutputs& out, const AttentionInputs& in,
                        const AttentionAdjoints& given);

void recurrence(RecurrentCell cell, const RecurrenceOutputs& out, const RecurrenceInputs& in);
void recurrence_backward(RecurrentCell cell, const RecurrenceAdjoints& adjoints,
                         const RecurrenceOutputs& results, const RecurrenceInputs& in);

void gather(const View& out, const View& a, const View* indices, int n_indices);
void scatter(ScatterOp op, const View& out, const View* indices, int n_indices, const View& a);

void argsort(const View& out, const View& a, int axis, bool descending);
void searchsorted(const View& out, const View& sorted, const View& values, bool right);
int64_t count_nonzero(const View& a);
void nonzero(const View& a, int64_t* coordinates);

}  // namespace NEEDLE_ISA
}  // namespace needle
