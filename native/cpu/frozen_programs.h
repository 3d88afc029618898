// Written by tools/freeze_programs.py; see frozen.h.
// clang-format off
#pragma once

#include "frozen.h"

namespace needle::frozen {

// softmax_program(x)
constexpr Line softmax[] = {
    load(0, f32, full),                                 // %0
    reduce(ReduceOp::max, f32, 0),                      // %1
    binary(BinaryOp::subtract, f32, full, 0, 1),        // %2
    unary(UnaryOp::exp, f32, full, 2),                  // %3
    reduce(ReduceOp::sum, f32, 3),                      // %4
    constant(f32),                                      // %5
    binary(BinaryOp::divide, f32, row, 5, 4),           // %6
    binary(BinaryOp::multiply, f32, full, 3, 6),        // %7
    store(0, f32, full, 7),                             // %8
};

// softmax_gradient(g, y)
constexpr Line softmax_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    binary(BinaryOp::multiply, f32, full, 0, 1),        // %2
    reduce(ReduceOp::sum, f32, 2),                      // %3
    binary(BinaryOp::multiply, f32, full, 1, 3),        // %4
    binary(BinaryOp::subtract, f32, full, 2, 4),        // %5
    store(0, f32, full, 5),                             // %6
};

// log_softmax(x)
constexpr Line log_softmax[] = {
    load(0, f32, full),                                 // %0
    reduce(ReduceOp::max, f32, 0),                      // %1
    binary(BinaryOp::subtract, f32, full, 0, 1),        // %2
    unary(UnaryOp::exp, f32, full, 2),                  // %3
    reduce(ReduceOp::sum, f32, 3),                      // %4
    unary(UnaryOp::log, f32, row, 4),                   // %5
    binary(BinaryOp::subtract, f32, full, 2, 5),        // %6
    store(0, f32, full, 6),                             // %7
};

// log_softmax_gradient(g, y)
constexpr Line log_softmax_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    unary(UnaryOp::exp, f32, full, 1),                  // %2
    reduce(ReduceOp::sum, f32, 0),                      // %3
    binary(BinaryOp::multiply, f32, full, 2, 3),        // %4
    binary(BinaryOp::subtract, f32, full, 0, 4),        // %5
    store(0, f32, full, 5),                             // %6
};

// affine_norm(x, weight, bias)
constexpr Line layer_norm[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    row_size(i64),                                      // %3
    reduce(ReduceOp::sum, f32, 0),                      // %4
    cast(f32, scalar, 3),                               // %5
    binary(BinaryOp::divide, f32, row, 4, 5),           // %6
    binary(BinaryOp::subtract, f32, full, 0, 6),        // %7
    unary(UnaryOp::square, f32, full, 7),               // %8
    reduce(ReduceOp::sum, f32, 8),                      // %9
    cast(f32, scalar, 3),                               // %10
    binary(BinaryOp::divide, f32, row, 9, 10),          // %11
    constant(f32),                                      // %12
    binary(BinaryOp::add, f32, row, 11, 12),            // %13
    unary(UnaryOp::rsqrt, f32, row, 13),                // %14
    binary(BinaryOp::multiply, f32, full, 7, 14),       // %15
    binary(BinaryOp::multiply, f32, full, 15, 1),       // %16
    binary(BinaryOp::add, f32, full, 16, 2),            // %17
    cast(f32, row, 6),                                  // %18
    cast(f32, row, 14),                                 // %19
    store(0, f32, full, 17),                            // %20
    store(1, f32, row, 18),                             // %21
    store(2, f32, row, 19),                             // %22
};

// affine_norm_gradient(g, x, mean, scale, weight)
constexpr Line layer_norm_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, row),                                  // %2
    load(3, f32, row),                                  // %3
    load(4, f32, full),                                 // %4
    binary(BinaryOp::subtract, f32, full, 1, 2),        // %5
    binary(BinaryOp::multiply, f32, full, 5, 3),        // %6
    binary(BinaryOp::multiply, f32, full, 0, 4),        // %7
    binary(BinaryOp::multiply, f32, full, 7, 6),        // %8
    row_size(i64),                                      // %9
    reduce(ReduceOp::sum, f32, 8),                      // %10
    cast(f32, scalar, 9),                               // %11
    binary(BinaryOp::divide, f32, row, 10, 11),         // %12
    binary(BinaryOp::multiply, f32, full, 6, 12),       // %13
    binary(BinaryOp::subtract, f32, full, 7, 13),       // %14
    reduce(ReduceOp::sum, f32, 7),                      // %15
    cast(f32, scalar, 9),                               // %16
    binary(BinaryOp::divide, f32, row, 15, 16),         // %17
    binary(BinaryOp::subtract, f32, full, 14, 17),      // %18
    binary(BinaryOp::multiply, f32, full, 0, 6),        // %19
    column_sum(f32, 19),                                // %20
    column_sum(f32, 0),                                 // %21
    binary(BinaryOp::multiply, f32, full, 18, 3),       // %22
    cast(f32, full, 22),                                // %23
    store(0, f32, full, 23),                            // %24
    store(1, f32, column, 20),                          // %25
    store(2, f32, column, 21),                          // %26
};

// affine_norm(x, weight)
constexpr Line rms_norm[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    unary(UnaryOp::square, f32, full, 0),               // %2
    row_size(i64),                                      // %3
    reduce(ReduceOp::sum, f32, 2),                      // %4
    cast(f32, scalar, 3),                               // %5
    binary(BinaryOp::divide, f32, row, 4, 5),           // %6
    constant(f32),                                      // %7
    binary(BinaryOp::add, f32, row, 6, 7),              // %8
    unary(UnaryOp::rsqrt, f32, row, 8),                 // %9
    binary(BinaryOp::multiply, f32, full, 0, 9),        // %10
    binary(BinaryOp::multiply, f32, full, 10, 1),       // %11
    cast(f32, row, 9),                                  // %12
    store(0, f32, full, 11),                            // %13
    store(1, f32, row, 12),                             // %14
};

// affine_norm_gradient(g, x, scale, weight)
constexpr Line rms_norm_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, row),                                  // %2
    load(3, f32, full),                                 // %3
    binary(BinaryOp::multiply, f32, full, 1, 2),        // %4
    binary(BinaryOp::multiply, f32, full, 0, 3),        // %5
    binary(BinaryOp::multiply, f32, full, 5, 4),        // %6
    row_size(i64),                                      // %7
    reduce(ReduceOp::sum, f32, 6),                      // %8
    cast(f32, scalar, 7),                               // %9
    binary(BinaryOp::divide, f32, row, 8, 9),           // %10
    binary(BinaryOp::multiply, f32, full, 4, 10),       // %11
    binary(BinaryOp::subtract, f32, full, 5, 11),       // %12
    binary(BinaryOp::multiply, f32, full, 0, 4),        // %13
    column_sum(f32, 13),                                // %14
    binary(BinaryOp::multiply, f32, full, 12, 2),       // %15
    cast(f32, full, 15),                                // %16
    store(0, f32, full, 16),                            // %17
    store(1, f32, column, 14),                          // %18
};

// cross_entropy(x, ids, zero)
constexpr Line cross_entropy[] = {
    load(0, f32, full),                                 // %0
    load(1, i64, row),                                  // %1
    load(2, f32, row),                                  // %2
    reduce(ReduceOp::max, f32, 0),                      // %3
    binary(BinaryOp::subtract, f32, full, 0, 3),        // %4
    unary(UnaryOp::exp, f32, full, 4),                  // %5
    reduce(ReduceOp::sum, f32, 5),                      // %6
    constant(i64),                                      // %7
    binary(BinaryOp::equal, b8, row, 1, 7),             // %8
    gather(f32, 0, 1),                                  // %9
    binary(BinaryOp::subtract, f32, row, 3, 9),         // %10
    unary(UnaryOp::log, f32, row, 6),                   // %11
    binary(BinaryOp::add, f32, row, 10, 11),            // %12
    binary(BinaryOp::add, f32, row, 12, 2),             // %13
    constant(f32),                                      // %14
    where(f32, row, 8, 14, 13),                         // %15
    cast(f32, row, 15),                                 // %16
    cast(f32, row, 3),                                  // %17
    cast(f32, row, 6),                                  // %18
    store(0, f32, row, 16),                             // %19
    store(1, f32, row, 17),                             // %20
    store(2, f32, row, 18),                             // %21
};

// mean_cross_entropy_gradient(x, ids, g, count, top, total)
constexpr Line cross_entropy_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, i64, row),                                  // %1
    load(2, f32, scalar),                               // %2
    load(3, f32, scalar),                               // %3
    load(4, f32, row),                                  // %4
    load(5, f32, row),                                  // %5
    constant(i64),                                      // %6
    binary(BinaryOp::equal, b8, row, 1, 6),             // %7
    binary(BinaryOp::divide, f32, scalar, 2, 3),        // %8
    constant(f32),                                      // %9
    where(f32, row, 7, 9, 8),                           // %10
    binary(BinaryOp::subtract, f32, full, 0, 4),        // %11
    unary(UnaryOp::exp, f32, full, 11),                 // %12
    binary(BinaryOp::divide, f32, row, 10, 5),          // %13
    binary(BinaryOp::multiply, f32, full, 12, 13),      // %14
    unary(UnaryOp::negative, f32, row, 10),             // %15
    add_at(f32, 14, 1, 15),                             // %16
    cast(f32, full, 16),                                // %17
    store(0, f32, full, 17),                            // %18
};

// gelu_program(x)
constexpr Line gelu[] = {
    load(0, f32, full),                                 // %0
    unary(UnaryOp::gelu, f32, full, 0),                 // %1
    store(0, f32, full, 1),                             // %2
};

// gelu_gradient(g, x)
constexpr Line gelu_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    unary(UnaryOp::gelu_slope, f32, full, 1),           // %2
    binary(BinaryOp::multiply, f32, full, 0, 2),        // %3
    store(0, f32, full, 3),                             // %4
};

// Adam(p, g, exp_avg, exp_avg_sq, rate0, rate1, rate2, rate3, rate4, rate5, rate6)
constexpr Line adam[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    load(3, f32, full),                                 // %3
    load(4, f64, scalar),                               // %4
    load(5, f64, scalar),                               // %5
    load(6, f64, scalar),                               // %6
    load(7, f64, scalar),                               // %7
    load(8, f64, scalar),                               // %8
    load(9, f64, scalar),                               // %9
    load(10, f64, scalar),                              // %10
    cast(f32, scalar, 5),                               // %11
    cast(f32, scalar, 6),                               // %12
    cast(f32, scalar, 7),                               // %13
    cast(f32, scalar, 8),                               // %14
    cast(f32, scalar, 9),                               // %15
    cast(f32, scalar, 10),                              // %16
    binary(BinaryOp::multiply, f32, full, 11, 2),       // %17
    binary(BinaryOp::multiply, f32, full, 12, 1),       // %18
    binary(BinaryOp::add, f32, full, 17, 18),           // %19
    binary(BinaryOp::multiply, f32, full, 13, 3),       // %20
    unary(UnaryOp::square, f32, full, 1),               // %21
    binary(BinaryOp::multiply, f32, full, 14, 21),      // %22
    binary(BinaryOp::add, f32, full, 20, 22),           // %23
    binary(BinaryOp::multiply, f32, full, 15, 19),      // %24
    unary(UnaryOp::sqrt, f32, full, 23),                // %25
    binary(BinaryOp::add, f32, full, 25, 16),           // %26
    binary(BinaryOp::divide, f32, full, 24, 26),        // %27
    binary(BinaryOp::subtract, f32, full, 0, 27),       // %28
    store(0, f32, full, 28),                            // %29
    store(1, f32, full, 19),                            // %30
    store(2, f32, full, 23),                            // %31
};

// AdamW(p, g, exp_avg, exp_avg_sq, rate0, rate1, rate2, rate3, rate4, rate5, rate6)
constexpr Line adam_w[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    load(3, f32, full),                                 // %3
    load(4, f64, scalar),                               // %4
    load(5, f64, scalar),                               // %5
    load(6, f64, scalar),                               // %6
    load(7, f64, scalar),                               // %7
    load(8, f64, scalar),                               // %8
    load(9, f64, scalar),                               // %9
    load(10, f64, scalar),                              // %10
    cast(f32, scalar, 4),                               // %11
    cast(f32, scalar, 5),                               // %12
    cast(f32, scalar, 6),                               // %13
    cast(f32, scalar, 7),                               // %14
    cast(f32, scalar, 8),                               // %15
    cast(f32, scalar, 9),                               // %16
    cast(f32, scalar, 10),                              // %17
    binary(BinaryOp::multiply, f32, full, 0, 11),       // %18
    binary(BinaryOp::multiply, f32, full, 12, 2),       // %19
    binary(BinaryOp::multiply, f32, full, 13, 1),       // %20
    binary(BinaryOp::add, f32, full, 19, 20),           // %21
    binary(BinaryOp::multiply, f32, full, 14, 3),       // %22
    unary(UnaryOp::square, f32, full, 1),               // %23
    binary(BinaryOp::multiply, f32, full, 15, 23),      // %24
    binary(BinaryOp::add, f32, full, 22, 24),           // %25
    binary(BinaryOp::multiply, f32, full, 16, 21),      // %26
    unary(UnaryOp::sqrt, f32, full, 25),                // %27
    binary(BinaryOp::add, f32, full, 27, 17),           // %28
    binary(BinaryOp::divide, f32, full, 26, 28),        // %29
    binary(BinaryOp::subtract, f32, full, 18, 29),      // %30
    store(0, f32, full, 30),                            // %31
    store(1, f32, full, 21),                            // %32
    store(2, f32, full, 25),                            // %33
};

// SGD(p, g, rate0, rate1, rate2, rate3)
constexpr Line sgd[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f64, scalar),                               // %2
    load(3, f64, scalar),                               // %3
    load(4, f64, scalar),                               // %4
    load(5, f64, scalar),                               // %5
    cast(f32, scalar, 2),                               // %6
    binary(BinaryOp::multiply, f32, full, 6, 1),        // %7
    binary(BinaryOp::subtract, f32, full, 0, 7),        // %8
    store(0, f32, full, 8),                             // %9
};

// SGD(p, g, momentum_buffer, rate0, rate1, rate2, rate3)
constexpr Line sgd_momentum[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    load(3, f64, scalar),                               // %3
    load(4, f64, scalar),                               // %4
    load(5, f64, scalar),                               // %5
    load(6, f64, scalar),                               // %6
    cast(f32, scalar, 3),                               // %7
    cast(f32, scalar, 5),                               // %8
    cast(f32, scalar, 6),                               // %9
    binary(BinaryOp::multiply, f32, full, 8, 2),        // %10
    binary(BinaryOp::multiply, f32, full, 9, 1),        // %11
    binary(BinaryOp::add, f32, full, 10, 11),           // %12
    binary(BinaryOp::multiply, f32, full, 7, 12),       // %13
    binary(BinaryOp::subtract, f32, full, 0, 13),       // %14
    store(0, f32, full, 14),                            // %15
    store(1, f32, full, 12),                            // %16
};

}  // namespace needle::frozen

#define NEEDLE_FROZEN_PROGRAMS(X) X(softmax) X(softmax_gradient) X(log_softmax) X(log_softmax_gradient) X(layer_norm) X(layer_norm_gradient) X(rms_norm) X(rms_norm_gradient) X(cross_entropy) X(cross_entropy_gradient) X(gelu) X(gelu_gradient) X(adam) X(adam_w) X(sgd) X(sgd_momentum)
