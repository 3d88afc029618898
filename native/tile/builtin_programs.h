// Written by tools/builtin_programs.py; see builtin.h.
// clang-format off
#pragma once

#include "builtin.h"

namespace needle::builtin {

// softmax_program(x)
constexpr auto kSoftmax = program({
    load(0), row_max(0), subtract(0, 1), exp(2), row_sum(3), constant(f32), divide(5, 4),
    multiply(3, 6), store(0, 7)}, {0, 0, 1, 1, 1, 0, 2, 2, 2});

// softmax_gradient(g, y)
constexpr auto kSoftmaxGradient = program({
    load(0), load(1), multiply(0, 1), row_sum(2), multiply(1, 3), subtract(2, 4), store(0, 5)}, {0, 0, 0, 0, 1, 1, 1});

// log_softmax(x)
constexpr auto kLogSoftmax = program({
    load(0), row_max(0), subtract(0, 1), exp(2), row_sum(3), log(4), subtract(2, 5), store(0, 6)}, {0, 0, 1, 1, 1, 2, 2, 2});

// log_softmax_gradient(g, y)
constexpr auto kLogSoftmaxGradient = program({
    load(0), load(1), exp(1), row_sum(0), multiply(2, 3), subtract(0, 4), store(0, 5)}, {0, 0, 0, 0, 1, 1, 1});

// affine_norm(x, weight, bias)
constexpr auto kLayerNorm = program({
    load(0), load(1), load(2), row_size(i64), row_sum(0), cast(f32, 3), divide(4, 5),
    subtract(0, 6), square(7), row_sum(8), cast(f32, 3), divide(9, 10), constant(f32), add(11, 12),
    rsqrt(13), multiply(7, 14), multiply(15, 1), add(16, 2), cast(f32, 6), cast(f32, 14),
    store(0, 17), store(1, 18), store(2, 19)}, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 2, 0, 2, 2, 2, 2, 2, 1, 2, 2, 1, 2});

// affine_norm_gradient(g, x, mean, scale, weight)
constexpr auto kLayerNormGradient = program({
    load(0), load(1), load(2, row, f32), load(3, row, f32), load(4), subtract(1, 2), multiply(5, 3),
    multiply(0, 4), multiply(7, 6), row_size(i64), row_sum(8), cast(f32, 9), divide(10, 11),
    multiply(6, 12), subtract(7, 13), row_sum(7), cast(f32, 9), divide(15, 16), subtract(14, 17),
    multiply(0, 6), column_sum(19), column_sum(0), multiply(18, 3), cast(f32, 22), store(0, 23),
    store(1, 20), store(2, 21)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0});

// affine_norm(x, weight)
constexpr auto kRmsNorm = program({
    load(0), load(1), square(0), row_size(i64), row_sum(2), cast(f32, 3), divide(4, 5),
    constant(f32), add(6, 7), rsqrt(8), multiply(0, 9), multiply(10, 1), cast(f32, 9), store(0, 11),
    store(1, 12)}, {0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1});

// affine_norm_gradient(g, x, scale, weight)
constexpr auto kRmsNormGradient = program({
    load(0), load(1), load(2, row, f32), load(3), multiply(1, 2), multiply(0, 3), multiply(5, 4),
    row_size(i64), row_sum(6), cast(f32, 7), divide(8, 9), multiply(4, 10), subtract(5, 11),
    multiply(0, 4), column_sum(13), multiply(12, 2), cast(f32, 15), store(0, 16), store(1, 14)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0});

// group_statistics(x)
constexpr auto kGroupStatistics = program({
    load(0), row_size(i64), row_sum(0), cast(f32, 1), divide(2, 3), subtract(0, 4), square(5),
    row_sum(6), cast(f32, 1), divide(7, 8), constant(f32), add(9, 10), rsqrt(11), store(0, 4),
    store(1, 12)}, {0, 0, 0, 0, 1, 1, 1, 1, 0, 2, 0, 2, 2, 1, 2});

// lines(x, factor, constant)
constexpr auto kLines = program({
    load(0), load(1, row, f32), load(2, row, f32), multiply(0, 1), add(3, 2), store(0, 4)}, {0, 0, 0, 0, 0, 0});

// place_sums(g, x, mean)
constexpr auto kPlaceSums = program({
    load(0), load(1), load(2, row, f32), row_sum(0), subtract(1, 2), multiply(0, 4), row_sum(5),
    store(0, 3), store(1, 6)}, {0, 0, 0, 0, 0, 0, 0, 1, 1});

// adjoint_lines(g, x, mean, of_g, of_d, of_one)
constexpr auto kAdjointLines = program({
    load(0), load(1), load(2, row, f32), load(3, row, f32), load(4, row, f32), load(5, row, f32),
    multiply(3, 0), subtract(1, 2), multiply(4, 7), subtract(6, 8), subtract(9, 5), store(0, 10)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});

// cross_entropy(x, ids, zero)
constexpr auto kCrossEntropy = program({
    load(0), load(1, row, i64), load(2, row, f32), row_max(0), subtract(0, 3), exp(4), row_sum(5),
    constant(i64), equal(1, 7), gather(0, 1), subtract(3, 9), log(6), add(10, 11), add(12, 2),
    constant(f32), where(8, 14, 13), cast(f32, 15), cast(f32, 3), cast(f32, 6), store(0, 16),
    store(1, 17), store(2, 18)}, {0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 2, 2, 2, 0, 2, 2, 1, 2, 2, 1, 2});

// mean_cross_entropy_gradient(x, ids, g, count, top, total)
constexpr auto kCrossEntropyGradient = program({
    load(0), load(1, row, i64), load(2, scalar, f32), load(3, scalar, f32), load(4, row, f32),
    load(5, row, f32), constant(i64), equal(1, 6), divide(2, 3), constant(f32), where(7, 9, 8),
    subtract(0, 4), exp(11), divide(10, 5), multiply(12, 13), negative(10), add_at(14, 1, 15),
    cast(f32, 16), store(0, 17)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});

// gelu_program(x)
constexpr auto kGelu = program({
    load(0), gelu(0), store(0, 1)}, {0, 0, 0});

// gelu_gradient(g, x)
constexpr auto kGeluGradient = program({
    load(0), load(1), gelu_slope(1), multiply(0, 2), store(0, 3)}, {0, 0, 0, 0, 0});

// Adam(p, g, exp_avg, exp_avg_sq, rate0, rate1, rate2, rate3, rate4, rate5, rate6)
constexpr auto kAdam = program({
    load(0), load(1), load(2), load(3), load(4, scalar, f64), load(5, scalar, f64),
    load(6, scalar, f64), load(7, scalar, f64), load(8, scalar, f64), load(9, scalar, f64),
    load(10, scalar, f64), cast(f32, 5), cast(f32, 6), cast(f32, 7), cast(f32, 8), cast(f32, 9),
    cast(f32, 10), multiply(11, 2), multiply(12, 1), add(17, 18), multiply(13, 3), square(1),
    multiply(14, 21), add(20, 22), multiply(15, 19), sqrt(23), add(25, 16), divide(24, 26),
    subtract(0, 27), store(0, 28), store(1, 19), store(2, 23)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0});

// AdamW(p, g, exp_avg, exp_avg_sq, rate0, rate1, rate2, rate3, rate4, rate5, rate6)
constexpr auto kAdamW = program({
    load(0), load(1), load(2), load(3), load(4, scalar, f64), load(5, scalar, f64),
    load(6, scalar, f64), load(7, scalar, f64), load(8, scalar, f64), load(9, scalar, f64),
    load(10, scalar, f64), cast(f32, 4), cast(f32, 5), cast(f32, 6), cast(f32, 7), cast(f32, 8),
    cast(f32, 9), cast(f32, 10), multiply(0, 11), multiply(12, 2), multiply(13, 1), add(19, 20),
    multiply(14, 3), square(1), multiply(15, 23), add(22, 24), multiply(16, 21), sqrt(25),
    add(27, 17), divide(26, 28), subtract(18, 29), store(0, 30), store(1, 21), store(2, 25)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0});

// SGD(p, g, rate0, rate1, rate2, rate3)
constexpr auto kSgd = program({
    load(0), load(1), load(2, scalar, f64), load(3, scalar, f64), load(4, scalar, f64),
    load(5, scalar, f64), cast(f32, 2), multiply(6, 1), subtract(0, 7), store(0, 8)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0});

// SGD(p, g, momentum_buffer, rate0, rate1, rate2, rate3)
constexpr auto kSgdMomentum = program({
    load(0), load(1), load(2), load(3, scalar, f64), load(4, scalar, f64), load(5, scalar, f64),
    load(6, scalar, f64), cast(f32, 3), cast(f32, 5), cast(f32, 6), multiply(8, 2), multiply(9, 1),
    add(10, 11), multiply(7, 12), subtract(0, 13), store(0, 14), store(1, 12)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});

// fused(x0, x1)
constexpr auto kBias = program({
    load(0), load(1), add(0, 1), store(0, 2)}, {0, 0, 0, 0});

// fused(x0)
constexpr auto kRelu = program({
    load(0), relu(0), store(0, 1)}, {0, 0, 0});

// fused(x0, x1)
constexpr auto kBiasRelu = program({
    load(0), load(1), add(0, 1), relu(2), store(0, 3)}, {0, 0, 0, 0, 0});

// fused(x1, x0)
constexpr auto kResidual = program({
    load(1), load(0), add(0, 1), store(0, 2)}, {0, 0, 0, 0});

// fused(x0, x1, x2)
constexpr auto kBiasResidual = program({
    load(0), load(1), load(2), add(0, 1), add(2, 3), store(0, 4)}, {0, 0, 0, 0, 0, 0});

// fused(x0, x1, x2)
constexpr auto kBiasShortcut = program({
    load(0), load(1), load(2), add(0, 1), add(3, 2), store(0, 4)}, {0, 0, 0, 0, 0, 0});

// affine_norm(x, weight)
constexpr auto kPlainNorm = program({
    load(0), load(1), row_size(i64), row_sum(0), cast(f32, 2), divide(3, 4), subtract(0, 5),
    square(6), row_sum(7), cast(f32, 2), divide(8, 9), constant(f32), add(10, 11), rsqrt(12),
    multiply(6, 13), multiply(14, 1), cast(f32, 5), cast(f32, 13), store(0, 15), store(1, 16),
    store(2, 17)}, {0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 2, 0, 2, 2, 2, 2, 1, 2, 2, 1, 2});

// fused(x0, x1, x2)
constexpr auto kPlainResidualNorm = program({
    load(0), load(1), load(2), add(0, 1), row_size(i64), row_sum(3), cast(f32, 4), divide(5, 6),
    subtract(3, 7), square(8), row_sum(9), divide(10, 6), constant(f32), add(11, 12), rsqrt(13),
    multiply(8, 14), multiply(15, 2), store(0, 3), store(1, 16), store(2, 7), store(3, 14)}, {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 0, 2, 2, 2, 2, 0, 2, 1, 2});

// fused(x0, x1, x2, x3)
constexpr auto kPlainLoss = program({
    load(0), load(1, row, i64), load(2, row, f32), load(3, scalar, f32), row_max(0), subtract(0, 4),
    exp(5), row_sum(6), constant(i64), equal(1, 8), gather(0, 1), subtract(4, 10), log(7),
    add(11, 12), add(13, 2), constant(f32), where(9, 15, 14), constant(f32), divide(17, 3),
    where(9, 15, 18), divide(19, 7), multiply(6, 20), negative(19), add_at(21, 1, 22), store(0, 16),
    store(1, 23)}, {0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 2, 2, 2, 0, 2, 0, 0, 0, 2, 2, 0, 2, 2, 2});

// affine_norm_gradient(g, x, mean, scale, weight)
constexpr auto kPlainNormGradient = program({
    load(0), load(1), load(2, row, f32), load(3, row, f32), load(4), subtract(1, 2), multiply(5, 3),
    multiply(0, 4), multiply(7, 6), row_size(i64), row_sum(8), cast(f32, 9), divide(10, 11),
    multiply(6, 12), subtract(7, 13), row_sum(7), cast(f32, 9), divide(15, 16), subtract(14, 17),
    multiply(0, 6), column_sum(19), multiply(18, 3), cast(f32, 21), store(0, 22), store(1, 20)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0});

// fused(x0, x1, x2, x3, x4, x5)
constexpr auto kPlainResidualNormGradient = program({
    load(0), load(1), load(2, row, f32), load(3, row, f32), load(4), load(5), subtract(1, 2),
    multiply(6, 3), multiply(0, 4), multiply(8, 7), row_size(i64), row_sum(9), cast(f32, 10),
    divide(11, 12), multiply(7, 13), subtract(8, 14), row_sum(8), divide(16, 12), subtract(15, 17),
    multiply(0, 7), column_sum(19), multiply(18, 3), add(5, 21), store(0, 20), store(1, 22)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1});

// fused(x0, x1, x2, x3, x4)
constexpr auto kBiasedResidualNorm = program({
    load(0), load(1), load(2), load(3), load(4), add(0, 1), add(2, 5), row_size(i64), row_sum(6),
    cast(f32, 7), divide(8, 9), subtract(6, 10), square(11), row_sum(12), divide(13, 9),
    constant(f32), add(14, 15), rsqrt(16), multiply(11, 17), multiply(18, 3), add(19, 4),
    store(0, 6), store(1, 20), store(2, 10), store(3, 17)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 0, 2, 2, 2, 2, 2, 0, 2, 1, 2});

// fused(x0, x1, x2, x3, x4)
constexpr auto kBiasedLoss = program({
    load(0), load(1), load(2, row, i64), load(3, row, f32), load(4, scalar, f32), add(0, 1),
    row_max(5), subtract(5, 6), exp(7), row_sum(8), constant(i64), equal(2, 10), gather(5, 2),
    subtract(6, 12), log(9), add(13, 14), add(15, 3), constant(f32), where(11, 17, 16),
    constant(f32), divide(19, 4), where(11, 17, 20), divide(21, 9), multiply(8, 22), negative(21),
    add_at(23, 2, 24), column_sum(25), store(0, 18), store(1, 25), store(2, 26)}, {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 2, 2, 2, 0, 2, 0, 0, 0, 2, 2, 0, 2, 2, 2, 2, 2});

// fused(x0, x1, x2, x3, x4)
constexpr auto kBiasedLastNormGradient = program({
    load(0), load(1), load(2, row, f32), load(3, row, f32), load(4), subtract(1, 2), multiply(5, 3),
    multiply(0, 4), multiply(7, 6), row_size(i64), row_sum(8), cast(f32, 9), divide(10, 11),
    multiply(6, 12), subtract(7, 13), row_sum(7), divide(15, 11), subtract(14, 16), multiply(0, 6),
    column_sum(18), column_sum(0), multiply(17, 3), column_sum(21), store(0, 21), store(1, 19),
    store(2, 20), store(3, 22)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1});

// fused(x0, x1, x2, x3, x4, x5)
constexpr auto kBiasedResidualNormGradient = program({
    load(0), load(1), load(2, row, f32), load(3, row, f32), load(4), load(5), subtract(1, 2),
    multiply(6, 3), multiply(0, 4), multiply(8, 7), row_size(i64), row_sum(9), cast(f32, 10),
    divide(11, 12), multiply(7, 13), subtract(8, 14), row_sum(8), divide(16, 12), subtract(15, 17),
    multiply(0, 7), column_sum(19), column_sum(0), multiply(18, 3), add(5, 22), column_sum(23),
    store(0, 20), store(1, 21), store(2, 23), store(3, 24)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1});

// fused(x0, x1, x2, x3, x4)
constexpr auto kInferenceResidualNorm = program({
    load(0), load(1), load(2), load(3), load(4), add(0, 1), add(2, 5), row_size(i64), row_sum(6),
    cast(f32, 7), divide(8, 9), subtract(6, 10), square(11), row_sum(12), divide(13, 9),
    constant(f32), add(14, 15), rsqrt(16), multiply(11, 17), multiply(18, 3), add(19, 4),
    store(0, 6), store(1, 20)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 0, 2, 2, 2, 2, 2, 0, 2});

// fused(x0, x1, x2, x3, x4)
constexpr auto kInferenceLastNorm = program({
    load(0), load(1), load(2), load(3), load(4), add(0, 1), add(2, 5), row_size(i64), row_sum(6),
    cast(f32, 7), divide(8, 9), subtract(6, 10), square(11), row_sum(12), divide(13, 9),
    constant(f32), add(14, 15), rsqrt(16), multiply(11, 17), multiply(18, 3), add(19, 4),
    store(0, 20)}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 0, 2, 2, 2, 2, 2, 2});

}  // namespace needle::builtin

#define NEEDLE_BUILTIN_PROGRAMS(X) X(kSoftmax) X(kSoftmaxGradient) X(kLogSoftmax) X(kLogSoftmaxGradient) X(kLayerNorm) X(kLayerNormGradient) X(kRmsNorm) X(kRmsNormGradient) X(kGroupStatistics) X(kLines) X(kPlaceSums) X(kAdjointLines) X(kCrossEntropy) X(kCrossEntropyGradient) X(kGelu) X(kGeluGradient) X(kAdam) X(kAdamW) X(kSgd) X(kSgdMomentum) X(kBias) X(kRelu) X(kBiasRelu) X(kResidual) X(kBiasResidual) X(kBiasShortcut) X(kPlainNorm) X(kPlainResidualNorm) X(kPlainLoss) X(kPlainNormGradient) X(kPlainResidualNormGradient) X(kBiasedResidualNorm) X(kBiasedLoss) X(kBiasedLastNormGradient) X(kBiasedResidualNormGradient) X(kInferenceResidualNorm) X(kInferenceLastNorm)
