// `needle_selftest accuracy [n]`: the largest error of each float32 function over every n-th float
// (1: all of them, some minutes each), against the C library in double.
#include <cmath>
#include <cstdio>
#include <vector>

#include "common/elementwise.h"
#include "core/isa.h"
#include "selftest.h"

namespace needle {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Function {
  const char* name;
  UnaryOp op;
  double (*exact)(double);
};

constexpr Function kFunctions[] = {
    {"exp", UnaryOp::exp, std::exp},    {"expm1", UnaryOp::expm1, std::expm1},
    {"log", UnaryOp::log, std::log},    {"log1p", UnaryOp::log1p, std::log1p},
    {"tanh", UnaryOp::tanh, std::tanh}, {"sigmoid", UnaryOp::sigmoid, sigmoid},
    {"erf", UnaryOp::erf, std::erf},    {"sinh", UnaryOp::sinh, std::sinh},
    {"cosh", UnaryOp::cosh, std::cosh}, {"sin", UnaryOp::sin, std::sin},
    {"cos", UnaryOp::cos, std::cos},    {"tan", UnaryOp::tan, std::tan},
    {"asin", UnaryOp::asin, std::asin}, {"acos", UnaryOp::acos, std::acos},
    {"atan", UnaryOp::atan, std::atan},
};

// In units of the last place of the exact value, rounded to float; 1e9 for a wrong special value.
double error(float y, double exact) {
  constexpr double kWrong = 1e9;
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) && std::isnan(y) ? 0 : kWrong;
  if (!std::isfinite(nearest) || !std::isfinite(y)) return y == nearest ? 0 : kWrong;
  if (exact == 0) return y == 0 && std::signbit(y) == std::signbit(exact) ? 0 : kWrong;
  int exponent;
  std::frexp(exact, &exponent);
  const double unit = std::ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
  return std::fabs(static_cast<double>(y) - exact) / unit;
}

}  // namespace

bool check_accuracy(const KernelTable& table, uint32_t every) {
  constexpr int64_t kCount = 4096;
  std::vector<float> x(kCount), y(kCount);
  View from{}, to{};
  from.ndim = to.ndim = 1;
  from.shape[0] = to.shape[0] = kCount;
  from.strides[0] = to.strides[0] = 1;
  from.dtype = to.dtype = DType::f32;
  from.data = reinterpret_cast<char*>(x.data());
  to.data = reinterpret_cast<char*>(y.data());
  bool passed = true;
  for (const Function& f : kFunctions) {
    double worst = 0;
    float where = 0;
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += uint64_t{every} * kCount) {
      for (int64_t i = 0; i < kCount; ++i) {
        const auto word = static_cast<uint32_t>(bits + static_cast<uint64_t>(i) * every);
        x[static_cast<size_t>(i)] = __builtin_bit_cast(float, word);
      }
      table.unary(f.op, to, from);
      for (size_t i = 0; i < kCount; ++i) {
        const double e = error(y[i], f.exact(static_cast<double>(x[i])));
        if (e > worst) worst = e, where = x[i];
      }
    }
    std::printf("[%s] %-8s %.3f ulp at %.9g\n", table.name, f.name, worst,
                static_cast<double>(where));
    passed = passed && worst <= 2;
  }
  return passed;
}

}  // namespace needle
