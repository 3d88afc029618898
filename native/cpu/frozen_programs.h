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

// group_statistics(x)
constexpr Line group_statistics[] = {
    load(0, f32, full),                                 // %0
    row_size(i64),                                      // %1
    reduce(ReduceOp::sum, f32, 0),                      // %2
    cast(f32, scalar, 1),                               // %3
    binary(BinaryOp::divide, f32, row, 2, 3),           // %4
    binary(BinaryOp::subtract, f32, full, 0, 4),        // %5
    unary(UnaryOp::square, f32, full, 5),               // %6
    reduce(ReduceOp::sum, f32, 6),                      // %7
    cast(f32, scalar, 1),                               // %8
    binary(BinaryOp::divide, f32, row, 7, 8),           // %9
    constant(f32),                                      // %10
    binary(BinaryOp::add, f32, row, 9, 10),             // %11
    unary(UnaryOp::rsqrt, f32, row, 11),                // %12
    store(0, f32, row, 4),                              // %13
    store(1, f32, row, 12),                             // %14
};

// lines(x, factor, constant)
constexpr Line lines[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, row),                                  // %1
    load(2, f32, row),                                  // %2
    binary(BinaryOp::multiply, f32, full, 0, 1),        // %3
    binary(BinaryOp::add, f32, full, 3, 2),             // %4
    store(0, f32, full, 4),                             // %5
};

// place_sums(g, x, mean)
constexpr Line place_sums[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, row),                                  // %2
    reduce(ReduceOp::sum, f32, 0),                      // %3
    binary(BinaryOp::subtract, f32, full, 1, 2),        // %4
    binary(BinaryOp::multiply, f32, full, 0, 4),        // %5
    reduce(ReduceOp::sum, f32, 5),                      // %6
    store(0, f32, row, 3),                              // %7
    store(1, f32, row, 6),                              // %8
};

// adjoint_lines(g, x, mean, of_g, of_d, of_one)
constexpr Line adjoint_lines[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, row),                                  // %2
    load(3, f32, row),                                  // %3
    load(4, f32, row),                                  // %4
    load(5, f32, row),                                  // %5
    binary(BinaryOp::multiply, f32, full, 3, 0),        // %6
    binary(BinaryOp::subtract, f32, full, 1, 2),        // %7
    binary(BinaryOp::multiply, f32, full, 4, 7),        // %8
    binary(BinaryOp::subtract, f32, full, 6, 8),        // %9
    binary(BinaryOp::subtract, f32, full, 9, 5),        // %10
    store(0, f32, full, 10),                            // %11
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

// fused(x0, x1)
constexpr Line bias[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    binary(BinaryOp::add, f32, full, 0, 1),             // %2
    store(0, f32, full, 2),                             // %3
};

// fused(x0)
constexpr Line relu[] = {
    load(0, f32, full),                                 // %0
    unary(UnaryOp::relu, f32, full, 0),                 // %1
    store(0, f32, full, 1),                             // %2
};

// fused(x0, x1)
constexpr Line bias_relu[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    binary(BinaryOp::add, f32, full, 0, 1),             // %2
    unary(UnaryOp::relu, f32, full, 2),                 // %3
    store(0, f32, full, 3),                             // %4
};

// fused(x1, x0)
constexpr Line residual[] = {
    load(1, f32, full),                                 // %0
    load(0, f32, full),                                 // %1
    binary(BinaryOp::add, f32, full, 0, 1),             // %2
    store(0, f32, full, 2),                             // %3
};

// fused(x0, x1, x2)
constexpr Line bias_residual[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    binary(BinaryOp::add, f32, full, 0, 1),             // %3
    binary(BinaryOp::add, f32, full, 2, 3),             // %4
    store(0, f32, full, 4),                             // %5
};

// fused(x0, x1, x2)
constexpr Line bias_shortcut[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    binary(BinaryOp::add, f32, full, 0, 1),             // %3
    binary(BinaryOp::add, f32, full, 3, 2),             // %4
    store(0, f32, full, 4),                             // %5
};

// affine_norm(x, weight)
constexpr Line plain_norm[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    row_size(i64),                                      // %2
    reduce(ReduceOp::sum, f32, 0),                      // %3
    cast(f32, scalar, 2),                               // %4
    binary(BinaryOp::divide, f32, row, 3, 4),           // %5
    binary(BinaryOp::subtract, f32, full, 0, 5),        // %6
    unary(UnaryOp::square, f32, full, 6),               // %7
    reduce(ReduceOp::sum, f32, 7),                      // %8
    cast(f32, scalar, 2),                               // %9
    binary(BinaryOp::divide, f32, row, 8, 9),           // %10
    constant(f32),                                      // %11
    binary(BinaryOp::add, f32, row, 10, 11),            // %12
    unary(UnaryOp::rsqrt, f32, row, 12),                // %13
    binary(BinaryOp::multiply, f32, full, 6, 13),       // %14
    binary(BinaryOp::multiply, f32, full, 14, 1),       // %15
    cast(f32, row, 5),                                  // %16
    cast(f32, row, 13),                                 // %17
    store(0, f32, full, 15),                            // %18
    store(1, f32, row, 16),                             // %19
    store(2, f32, row, 17),                             // %20
};

// fused(x0, x1, x2)
constexpr Line plain_residual_norm[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    binary(BinaryOp::add, f32, full, 0, 1),             // %3
    row_size(i64),                                      // %4
    reduce(ReduceOp::sum, f32, 3),                      // %5
    cast(f32, scalar, 4),                               // %6
    binary(BinaryOp::divide, f32, row, 5, 6),           // %7
    binary(BinaryOp::subtract, f32, full, 3, 7),        // %8
    unary(UnaryOp::square, f32, full, 8),               // %9
    reduce(ReduceOp::sum, f32, 9),                      // %10
    binary(BinaryOp::divide, f32, row, 10, 6),          // %11
    constant(f32),                                      // %12
    binary(BinaryOp::add, f32, row, 11, 12),            // %13
    unary(UnaryOp::rsqrt, f32, row, 13),                // %14
    binary(BinaryOp::multiply, f32, full, 8, 14),       // %15
    binary(BinaryOp::multiply, f32, full, 15, 2),       // %16
    store(0, f32, full, 3),                             // %17
    store(1, f32, full, 16),                            // %18
    store(2, f32, row, 7),                              // %19
    store(3, f32, row, 14),                             // %20
};

// fused(x0, x1, x2, x3)
constexpr Line plain_loss[] = {
    load(0, f32, full),                                 // %0
    load(1, i64, row),                                  // %1
    load(2, f32, row),                                  // %2
    load(3, f32, scalar),                               // %3
    reduce(ReduceOp::max, f32, 0),                      // %4
    binary(BinaryOp::subtract, f32, full, 0, 4),        // %5
    unary(UnaryOp::exp, f32, full, 5),                  // %6
    reduce(ReduceOp::sum, f32, 6),                      // %7
    constant(i64),                                      // %8
    binary(BinaryOp::equal, b8, row, 1, 8),             // %9
    gather(f32, 0, 1),                                  // %10
    binary(BinaryOp::subtract, f32, row, 4, 10),        // %11
    unary(UnaryOp::log, f32, row, 7),                   // %12
    binary(BinaryOp::add, f32, row, 11, 12),            // %13
    binary(BinaryOp::add, f32, row, 13, 2),             // %14
    constant(f32),                                      // %15
    where(f32, row, 9, 15, 14),                         // %16
    constant(f32),                                      // %17
    binary(BinaryOp::divide, f32, scalar, 17, 3),       // %18
    where(f32, row, 9, 15, 18),                         // %19
    binary(BinaryOp::divide, f32, row, 19, 7),          // %20
    binary(BinaryOp::multiply, f32, full, 6, 20),       // %21
    unary(UnaryOp::negative, f32, row, 19),             // %22
    add_at(f32, 21, 1, 22),                             // %23
    store(0, f32, row, 16),                             // %24
    store(1, f32, full, 23),                            // %25
};

// affine_norm_gradient(g, x, mean, scale, weight)
constexpr Line plain_norm_gradient[] = {
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
    binary(BinaryOp::multiply, f32, full, 18, 3),       // %21
    cast(f32, full, 21),                                // %22
    store(0, f32, full, 22),                            // %23
    store(1, f32, column, 20),                          // %24
};

// fused(x0, x1, x2, x3, x4, x5)
constexpr Line plain_residual_norm_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, row),                                  // %2
    load(3, f32, row),                                  // %3
    load(4, f32, full),                                 // %4
    load(5, f32, full),                                 // %5
    binary(BinaryOp::subtract, f32, full, 1, 2),        // %6
    binary(BinaryOp::multiply, f32, full, 6, 3),        // %7
    binary(BinaryOp::multiply, f32, full, 0, 4),        // %8
    binary(BinaryOp::multiply, f32, full, 8, 7),        // %9
    row_size(i64),                                      // %10
    reduce(ReduceOp::sum, f32, 9),                      // %11
    cast(f32, scalar, 10),                              // %12
    binary(BinaryOp::divide, f32, row, 11, 12),         // %13
    binary(BinaryOp::multiply, f32, full, 7, 13),       // %14
    binary(BinaryOp::subtract, f32, full, 8, 14),       // %15
    reduce(ReduceOp::sum, f32, 8),                      // %16
    binary(BinaryOp::divide, f32, row, 16, 12),         // %17
    binary(BinaryOp::subtract, f32, full, 15, 17),      // %18
    binary(BinaryOp::multiply, f32, full, 0, 7),        // %19
    column_sum(f32, 19),                                // %20
    binary(BinaryOp::multiply, f32, full, 18, 3),       // %21
    binary(BinaryOp::add, f32, full, 5, 21),            // %22
    store(0, f32, column, 20),                          // %23
    store(1, f32, full, 22),                            // %24
};

// fused(x0, x1, x2, x3, x4)
constexpr Line biased_residual_norm[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    load(3, f32, full),                                 // %3
    load(4, f32, full),                                 // %4
    binary(BinaryOp::add, f32, full, 0, 1),             // %5
    binary(BinaryOp::add, f32, full, 2, 5),             // %6
    row_size(i64),                                      // %7
    reduce(ReduceOp::sum, f32, 6),                      // %8
    cast(f32, scalar, 7),                               // %9
    binary(BinaryOp::divide, f32, row, 8, 9),           // %10
    binary(BinaryOp::subtract, f32, full, 6, 10),       // %11
    unary(UnaryOp::square, f32, full, 11),              // %12
    reduce(ReduceOp::sum, f32, 12),                     // %13
    binary(BinaryOp::divide, f32, row, 13, 9),          // %14
    constant(f32),                                      // %15
    binary(BinaryOp::add, f32, row, 14, 15),            // %16
    unary(UnaryOp::rsqrt, f32, row, 16),                // %17
    binary(BinaryOp::multiply, f32, full, 11, 17),      // %18
    binary(BinaryOp::multiply, f32, full, 18, 3),       // %19
    binary(BinaryOp::add, f32, full, 19, 4),            // %20
    store(0, f32, full, 6),                             // %21
    store(1, f32, full, 20),                            // %22
    store(2, f32, row, 10),                             // %23
    store(3, f32, row, 17),                             // %24
};

// fused(x0, x1, x2, x3, x4)
constexpr Line biased_loss[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, i64, row),                                  // %2
    load(3, f32, row),                                  // %3
    load(4, f32, scalar),                               // %4
    binary(BinaryOp::add, f32, full, 0, 1),             // %5
    reduce(ReduceOp::max, f32, 5),                      // %6
    binary(BinaryOp::subtract, f32, full, 5, 6),        // %7
    unary(UnaryOp::exp, f32, full, 7),                  // %8
    reduce(ReduceOp::sum, f32, 8),                      // %9
    constant(i64),                                      // %10
    binary(BinaryOp::equal, b8, row, 2, 10),            // %11
    gather(f32, 5, 2),                                  // %12
    binary(BinaryOp::subtract, f32, row, 6, 12),        // %13
    unary(UnaryOp::log, f32, row, 9),                   // %14
    binary(BinaryOp::add, f32, row, 13, 14),            // %15
    binary(BinaryOp::add, f32, row, 15, 3),             // %16
    constant(f32),                                      // %17
    where(f32, row, 11, 17, 16),                        // %18
    constant(f32),                                      // %19
    binary(BinaryOp::divide, f32, scalar, 19, 4),       // %20
    where(f32, row, 11, 17, 20),                        // %21
    binary(BinaryOp::divide, f32, row, 21, 9),          // %22
    binary(BinaryOp::multiply, f32, full, 8, 22),       // %23
    unary(UnaryOp::negative, f32, row, 21),             // %24
    add_at(f32, 23, 2, 24),                             // %25
    column_sum(f32, 25),                                // %26
    store(0, f32, row, 18),                             // %27
    store(1, f32, full, 25),                            // %28
    store(2, f32, column, 26),                          // %29
};

// fused(x0, x1, x2, x3, x4)
constexpr Line biased_last_norm_gradient[] = {
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
    binary(BinaryOp::divide, f32, row, 15, 11),         // %16
    binary(BinaryOp::subtract, f32, full, 14, 16),      // %17
    binary(BinaryOp::multiply, f32, full, 0, 6),        // %18
    column_sum(f32, 18),                                // %19
    column_sum(f32, 0),                                 // %20
    binary(BinaryOp::multiply, f32, full, 17, 3),       // %21
    column_sum(f32, 21),                                // %22
    store(0, f32, full, 21),                            // %23
    store(1, f32, column, 19),                          // %24
    store(2, f32, column, 20),                          // %25
    store(3, f32, column, 22),                          // %26
};

// fused(x0, x1, x2, x3, x4, x5)
constexpr Line biased_residual_norm_gradient[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, row),                                  // %2
    load(3, f32, row),                                  // %3
    load(4, f32, full),                                 // %4
    load(5, f32, full),                                 // %5
    binary(BinaryOp::subtract, f32, full, 1, 2),        // %6
    binary(BinaryOp::multiply, f32, full, 6, 3),        // %7
    binary(BinaryOp::multiply, f32, full, 0, 4),        // %8
    binary(BinaryOp::multiply, f32, full, 8, 7),        // %9
    row_size(i64),                                      // %10
    reduce(ReduceOp::sum, f32, 9),                      // %11
    cast(f32, scalar, 10),                              // %12
    binary(BinaryOp::divide, f32, row, 11, 12),         // %13
    binary(BinaryOp::multiply, f32, full, 7, 13),       // %14
    binary(BinaryOp::subtract, f32, full, 8, 14),       // %15
    reduce(ReduceOp::sum, f32, 8),                      // %16
    binary(BinaryOp::divide, f32, row, 16, 12),         // %17
    binary(BinaryOp::subtract, f32, full, 15, 17),      // %18
    binary(BinaryOp::multiply, f32, full, 0, 7),        // %19
    column_sum(f32, 19),                                // %20
    column_sum(f32, 0),                                 // %21
    binary(BinaryOp::multiply, f32, full, 18, 3),       // %22
    binary(BinaryOp::add, f32, full, 5, 22),            // %23
    column_sum(f32, 23),                                // %24
    store(0, f32, column, 20),                          // %25
    store(1, f32, column, 21),                          // %26
    store(2, f32, full, 23),                            // %27
    store(3, f32, column, 24),                          // %28
};

// fused(x0, x1, x2, x3, x4)
constexpr Line inference_residual_norm[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    load(3, f32, full),                                 // %3
    load(4, f32, full),                                 // %4
    binary(BinaryOp::add, f32, full, 0, 1),             // %5
    binary(BinaryOp::add, f32, full, 2, 5),             // %6
    row_size(i64),                                      // %7
    reduce(ReduceOp::sum, f32, 6),                      // %8
    cast(f32, scalar, 7),                               // %9
    binary(BinaryOp::divide, f32, row, 8, 9),           // %10
    binary(BinaryOp::subtract, f32, full, 6, 10),       // %11
    unary(UnaryOp::square, f32, full, 11),              // %12
    reduce(ReduceOp::sum, f32, 12),                     // %13
    binary(BinaryOp::divide, f32, row, 13, 9),          // %14
    constant(f32),                                      // %15
    binary(BinaryOp::add, f32, row, 14, 15),            // %16
    unary(UnaryOp::rsqrt, f32, row, 16),                // %17
    binary(BinaryOp::multiply, f32, full, 11, 17),      // %18
    binary(BinaryOp::multiply, f32, full, 18, 3),       // %19
    binary(BinaryOp::add, f32, full, 19, 4),            // %20
    store(0, f32, full, 6),                             // %21
    store(1, f32, full, 20),                            // %22
};

// fused(x0, x1, x2, x3, x4)
constexpr Line inference_last_norm[] = {
    load(0, f32, full),                                 // %0
    load(1, f32, full),                                 // %1
    load(2, f32, full),                                 // %2
    load(3, f32, full),                                 // %3
    load(4, f32, full),                                 // %4
    binary(BinaryOp::add, f32, full, 0, 1),             // %5
    binary(BinaryOp::add, f32, full, 2, 5),             // %6
    row_size(i64),                                      // %7
    reduce(ReduceOp::sum, f32, 6),                      // %8
    cast(f32, scalar, 7),                               // %9
    binary(BinaryOp::divide, f32, row, 8, 9),           // %10
    binary(BinaryOp::subtract, f32, full, 6, 10),       // %11
    unary(UnaryOp::square, f32, full, 11),              // %12
    reduce(ReduceOp::sum, f32, 12),                     // %13
    binary(BinaryOp::divide, f32, row, 13, 9),          // %14
    constant(f32),                                      // %15
    binary(BinaryOp::add, f32, row, 14, 15),            // %16
    unary(UnaryOp::rsqrt, f32, row, 16),                // %17
    binary(BinaryOp::multiply, f32, full, 11, 17),      // %18
    binary(BinaryOp::multiply, f32, full, 18, 3),       // %19
    binary(BinaryOp::add, f32, full, 19, 4),            // %20
    store(0, f32, full, 20),                            // %21
};

}  // namespace needle::frozen

#define NEEDLE_FROZEN_PROGRAMS(X) X(softmax) X(softmax_gradient) X(log_softmax) X(log_softmax_gradient) X(layer_norm) X(layer_norm_gradient) X(rms_norm) X(rms_norm_gradient) X(group_statistics) X(lines) X(place_sums) X(adjoint_lines) X(cross_entropy) X(cross_entropy_gradient) X(gelu) X(gelu_gradient) X(adam) X(adam_w) X(sgd) X(sgd_momentum) X(bias) X(relu) X(bias_relu) X(residual) X(bias_residual) X(bias_shortcut) X(plain_norm) X(plain_residual_norm) X(plain_loss) X(plain_norm_gradient) X(plain_residual_norm_gradient) X(biased_residual_norm) X(biased_loss) X(biased_last_norm_gradient) X(biased_residual_norm_gradient) X(inference_residual_norm) X(inference_last_norm)
