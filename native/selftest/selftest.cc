// Checks the kernels of every instruction set that this machine has against naive loops, without
// Python: `needle_selftest` prints one line per set and fails on the first difference it counts.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "common/elementwise.h"
#include "common/reduce.h"
#include "core/isa.h"
#include "numbers.h"
#include "selftest.h"

namespace needle {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
constexpr DType kInts[] = {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8};
constexpr DType kAll[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                          DType::i16, DType::i32, DType::i64, DType::u8,   DType::b8};

const KernelTable* table;
int checks = 0, failures = 0;

void expect(bool ok, const std::string& what) {
  ++checks;
  if (ok) return;
  if (++failures <= 20) std::printf("  FAILED [%s] %s\n", table->name, what.c_str());
}

enum class Layout { compact, transposed, strided, reversed };
constexpr Layout kLayouts[] = {Layout::compact, Layout::transposed, Layout::strided,
                               Layout::reversed};

// Memory of its own, seen through a layout.
struct Tensor {
  std::vector<double> memory;  // for its alignment; large enough for any dtype
  View view;

  Tensor(std::vector<int64_t> shape, DType dtype, Layout layout = Layout::compact) {
    view.dtype = dtype;
    view.ndim = static_cast<int>(shape.size());
    const int64_t step = layout == Layout::strided ? 2 : 1;
    int64_t stride = step;
    for (int i = 0; i < view.ndim; ++i) {
      const int d = layout == Layout::transposed ? i : view.ndim - 1 - i;
      view.shape[d] = shape[static_cast<size_t>(d)];
      view.strides[d] = stride;
      stride *= view.shape[d];
    }
    memory.assign(static_cast<size_t>(stride) + 8, 0);
    view.data = reinterpret_cast<char*>(memory.data());
    if (layout == Layout::reversed) {
      for (int d = 0; d < view.ndim; ++d) {
        if (view.shape[d] > 0) {
          view.data += (view.shape[d] - 1) * view.strides[d] * item_size(dtype);
        }
        view.strides[d] = -view.strides[d];
      }
    }
  }

  // Values are set through a float64 array and the copy kernel, which is itself checked first.
  template <class F>
  Tensor& fill(F&& value) {
    std::vector<int64_t> shape(view.shape, view.shape + view.ndim);
    std::vector<double> numbers(static_cast<size_t>(std::max<int64_t>(1, view.size())));
    for (double& x : numbers) x = value();
    View source = Tensor(shape, DType::f64).view;
    source.data = reinterpret_cast<char*>(numbers.data());
    table->copy(view, source);
    return *this;
  }

  double at(const std::vector<int64_t>& index) const { return read(view, index); }
};

std::string label(const char* name, DType dtype, Layout layout) {
  return std::string(name) + " dtype " + std::to_string(static_cast<int>(dtype)) + " layout " +
         std::to_string(static_cast<int>(layout));
}

void check_halves() {
  for (DType dtype : {DType::f16, DType::bf16}) {
    Tensor bits({65536}, dtype), wide({65536}, DType::f64), back({65536}, dtype);
    auto* stored = reinterpret_cast<uint16_t*>(bits.view.data);
    std::iota(stored, stored + 65536, uint16_t{0});
    table->copy(wide.view, bits.view);
    table->copy(back.view, wide.view);
    bool same = true;
    for (int64_t i = 0; i < 65536; ++i) {
      const double expected = bits.at({i}), actual = wide.at({i});
      same &= std::isnan(expected) ? std::isnan(actual) && std::isnan(back.at({i}))
                                   : expected == actual && expected == back.at({i});
    }
    expect(same, label("half bits to float64 and back", dtype, Layout::compact));
    for (DType from : {DType::f32, DType::f64}) {
      Tensor source({20000}, from), target({20000}, dtype);
      source.fill([] { return std::ldexp(uniform(-2, 2), static_cast<int>(whole(-30, 18))); });
      table->copy(target.view, source.view);
      bool rounded = true;
      for (int64_t i = 0; i < 20000; ++i) {
        rounded &= target.at({i}) == rounded_as(source.at({i}), dtype);
      }
      expect(rounded, label("rounding to a half", dtype, Layout::compact));
    }
  }
}

void check_copies() {
  for (DType from : kAll) {
    for (DType to : kAll) {
      for (Layout layout : kLayouts) {
        Tensor source({37, 5, 41}, from, layout), target({37, 5, 41}, to);
        source.fill([&] { return small(from); });
        table->copy(target.view, source.view);
        bool ok = true;
        for_each_index(source.view, [&](const auto& index) {
          const double x = source.at(index);
          double expected = tolerance(to) == 0 ? std::trunc(x) : rounded_as(x, to);
          if (to == DType::b8) expected = x != 0;
          if (to == DType::u8 && expected < 0) expected += 256;
          ok &= target.at(index) == expected;
        });
        expect(ok, label("copy", from, layout) + " to " + std::to_string(static_cast<int>(to)));
      }
    }
  }
}

template <class Function>
struct Named {
  const char* name;
  int op;
  Function function;
};

#define OP1(name) #name, static_cast<int>(UnaryOp::name)
#define OP2(name) #name, static_cast<int>(BinaryOp::name)

const Named<double (*)(double)> kUnaryAny[] = {
    {OP1(negative), [](double x) { return -x; }},
    {OP1(abs), [](double x) { return std::fabs(x); }},
    {OP1(sign), [](double x) { return static_cast<double>((x > 0) - (x < 0)); }},
    {OP1(square), [](double x) { return x * x; }},
    {OP1(relu), [](double x) { return std::max(x, 0.0); }},
    {OP1(floor), [](double x) { return std::floor(x); }},
    {OP1(ceil), [](double x) { return std::ceil(x); }},
    {OP1(round), [](double x) { return std::nearbyint(x); }}};

const Named<double (*)(double)> kUnaryFloat[] = {
    {OP1(exp), [](double x) { return std::exp(x); }},
    {OP1(log), [](double x) { return std::log(x); }},
    {OP1(log1p), [](double x) { return std::log1p(x); }},
    {OP1(expm1), [](double x) { return std::expm1(x); }},
    {OP1(sqrt), [](double x) { return std::sqrt(x); }},
    {OP1(rsqrt), [](double x) { return 1 / std::sqrt(x); }},
    {OP1(sin), [](double x) { return std::sin(x); }},
    {OP1(cos), [](double x) { return std::cos(x); }},
    {OP1(tan), [](double x) { return std::tan(x); }},
    {OP1(atan), [](double x) { return std::atan(x); }},
    {OP1(tanh), [](double x) { return std::tanh(x); }},
    {OP1(sinh), [](double x) { return std::sinh(x); }},
    {OP1(cosh), [](double x) { return std::cosh(x); }},
    {OP1(sigmoid), [](double x) { return 1 / (1 + std::exp(-x)); }},
    {OP1(erf), [](double x) { return std::erf(x); }}};

double floor_mod(double x, double y) { return x - std::floor(x / y) * y; }

const Named<double (*)(double, double)> kBinaryAny[] = {
    {OP2(add), [](double x, double y) { return x + y; }},
    {OP2(subtract), [](double x, double y) { return x - y; }},
    {OP2(multiply), [](double x, double y) { return x * y; }},
    {OP2(floor_divide), [](double x, double y) { return y == 0 ? 0 : std::floor(x / y); }},
    {OP2(remainder), [](double x, double y) { return y == 0 ? 0 : floor_mod(x, y); }},
    {OP2(maximum), [](double x, double y) { return std::max(x, y); }},
    {OP2(minimum), [](double x, double y) { return std::min(x, y); }}};

const Named<double (*)(double, double)> kBinaryBool[] = {
    {OP2(equal), [](double x, double y) { return static_cast<double>(x == y); }},
    {OP2(less), [](double x, double y) { return static_cast<double>(x < y); }},
    {OP2(greater_equal), [](double x, double y) { return static_cast<double>(x >= y); }},
    {OP2(logical_and), [](double x, double y) { return static_cast<double>(x != 0 && y != 0); }}};

// What an integer dtype keeps of a whole number.
double wrapped(double x, DType dtype) {
  if (dtype != DType::u8) return x;
  return floor_mod(x, 256);
}

void check_unary(const Named<double (*)(double)>& op, DType dtype, Layout layout) {
  Tensor a({13, 3, 57}, dtype, layout), out({13, 3, 57}, dtype);
  const bool positive = op.function(-1.0) != op.function(-1.0) || !std::isfinite(op.function(-1));
  a.fill([&] { return positive ? std::fabs(small(dtype)) + 0.5 : small(dtype); });
  table->unary(static_cast<UnaryOp>(op.op), out.view, a.view);
  bool ok = true;
  for_each_index(a.view, [&](const auto& index) {
    const double expected = rounded_as(wrapped(op.function(a.at(index)), dtype), dtype);
    ok &= close(out.at(index), expected, dtype);
  });
  expect(ok, label(op.name, dtype, layout));
}

void check_binary(const Named<double (*)(double, double)>& op, DType dtype, DType result,
                  Layout layout) {
  Tensor a({13, 3, 57}, dtype, layout), b({13, 3, 57}, dtype), out({13, 3, 57}, result, layout);
  a.fill([&] { return small(dtype); });
  const bool divides = op.op == static_cast<int>(BinaryOp::floor_divide) ||
                       op.op == static_cast<int>(BinaryOp::remainder);
  b.fill([&] { return tolerance(dtype) > 0 && divides ? 0.75 : small(dtype); });
  b.view.strides[1] = 0;  // broadcast
  table->binary(static_cast<BinaryOp>(op.op), out.view, a.view, b.view);
  bool ok = true;
  for_each_index(a.view, [&](const auto& index) {
    const double expected = wrapped(op.function(a.at(index), b.at(index)), result);
    ok &= close(out.at(index), rounded_as(expected, result), dtype);
  });
  expect(ok, label(op.name, dtype, layout));
}

void check_elementwise() {
  for (Layout layout : kLayouts) {
    for (const auto& op : kUnaryAny) {
      for (DType dtype : kFloats) check_unary(op, dtype, layout);
      for (DType dtype : kInts) check_unary(op, dtype, layout);
    }
    for (const auto& op : kUnaryFloat) {
      for (DType dtype : kFloats) check_unary(op, dtype, layout);
    }
    for (const auto& op : kBinaryAny) {
      for (DType dtype : kFloats) check_binary(op, dtype, dtype, layout);
      for (DType dtype : kInts) check_binary(op, dtype, dtype, layout);
    }
    for (const auto& op : kBinaryBool) {
      for (DType dtype : kAll) check_binary(op, dtype, DType::b8, layout);
    }
    for (DType dtype : kAll) {
      Tensor condition({13, 3, 57}, DType::b8), a({13, 3, 57}, dtype, layout);
      Tensor b({13, 3, 57}, dtype), out({13, 3, 57}, dtype);
      condition.fill([] { return whole(0, 1); });
      a.fill([&] { return small(dtype); });
      b.fill([&] { return small(dtype); });
      table->where(out.view, condition.view, a.view, b.view);
      bool ok = true;
      for_each_index(a.view, [&](const auto& index) {
        ok &= out.at(index) == (condition.at(index) != 0 ? a.at(index) : b.at(index));
      });
      expect(ok, label("where", dtype, layout));
    }
  }
}

void check_reductions() {
  const std::vector<int64_t> shape = {11, 5, 301};
  for (DType dtype : kAll) {
    for (Layout layout : kLayouts) {
      Tensor a(shape, dtype, layout);
      a.fill([&] { return small(dtype); });
      for (int axis = 0; axis < 3; ++axis) {
        std::vector<int64_t> reduced = shape;
        reduced[static_cast<size_t>(axis)] = 1;
        const DType summed = tolerance(dtype) > 0 ? dtype : DType::i64;
        Tensor sum(reduced, summed), most(reduced, dtype), where_most(reduced, DType::i64);
        Tensor running(shape, summed);
        table->reduce(ReduceOp::sum, sum.view, a.view);
        table->reduce(ReduceOp::max, most.view, a.view);
        table->arg_reduce(ArgOp::argmax, where_most.view, a.view, axis);
        table->scan(ScanOp::cumsum, running.view, a.view, axis);
        bool ok = true;
        for_each_index(sum.view, [&](std::vector<int64_t> index) {
          double total = 0, best = -INFINITY;
          int64_t position = 0;
          const int64_t n = shape[static_cast<size_t>(axis)];
          for (int64_t i = 0; i < n; ++i) {
            index[static_cast<size_t>(axis)] = i;
            const double x = a.at(index);
            total += x;
            if (x > best) best = x, position = i;
            ok &= std::fabs(running.at(index) - total) <= tolerance(summed) * 600;
          }
          index[static_cast<size_t>(axis)] = 0;
          ok &= std::fabs(sum.at(index) - total) <= tolerance(summed) * 600;
          ok &= most.at(index) == best;
          ok &= where_most.at(index) == static_cast<double>(position);
        });
        expect(ok, label("reductions", dtype, layout) + " axis " + std::to_string(axis));
      }
    }
  }
}

void check_matmul(DType dtype, Layout layout, int64_t m, int64_t k, int64_t n) {
  Tensor a({2, m, k}, dtype, layout), b({2, k, n}, dtype, layout), out({2, m, n}, dtype);
  a.fill([] { return whole(0, 1); });  // sums stay exact in every dtype
  b.fill([] { return whole(0, 1); });
  table->matmul(out.view, a.view, b.view);
  bool ok = true;
  for_each_index(out.view, [&](const auto& index) {
    double total = 0;
    for (int64_t i = 0; i < k; ++i) {
      total += a.at({index[0], index[1], i}) * b.at({index[0], i, index[2]});
    }
    ok &= out.at(index) == (dtype == DType::b8 ? total > 0 : total);
  });
  expect(ok, label("matmul", dtype, layout) + " k " + std::to_string(k));
}

void check_matmuls() {
  for (Layout layout : kLayouts) {
    for (DType dtype : kAll) {
      check_matmul(dtype, layout, 1, 1, 1);
      check_matmul(dtype, layout, 3, 17, 5);
      check_matmul(dtype, layout, 65, 130, 49);
    }
    check_matmul(DType::f64, layout, 12, 2000, 12);   // a block, and work for two tasks
    check_matmul(DType::f32, layout, 450, 170, 910);  // as AMX takes them
    check_matmul(DType::bf16, layout, 520, 130, 260);
  }
}

void check_indexing() {
  for (DType dtype : kAll) {
    for (Layout layout : kLayouts) {
      Tensor a({9, 7, 33}, dtype, layout), rows({50}, DType::i64), cols({50}, DType::i64);
      a.fill([&] { return small(dtype); });
      rows.fill([] { return whole(-9, 8); });
      cols.fill([] { return whole(-7, 6); });
      const auto position = [](double i, int64_t n) {
        return static_cast<int64_t>(i < 0 ? i + static_cast<double>(n) : i);
      };
      const View indices[] = {rows.view, cols.view};
      Tensor taken({50, 33}, dtype), total({9, 7, 33}, dtype, layout);
      table->gather(taken.view, a.view, indices, 2);
      table->scatter(ScatterOp::add, total.view, indices, 2, taken.view);
      std::vector<double> expected(9 * 7 * 33, 0);
      bool ok = true;
      for_each_index(taken.view, [&](const auto& index) {
        const int64_t r = position(rows.at({index[0]}), 9), c = position(cols.at({index[0]}), 7);
        ok &= taken.at(index) == a.at({r, c, index[1]});
        expected[static_cast<size_t>((r * 7 + c) * 33 + index[1])] += taken.at(index);
      });
      for_each_index(total.view, [&](const auto& index) {
        double sum = expected[static_cast<size_t>((index[0] * 7 + index[1]) * 33 + index[2])];
        if (dtype == DType::b8) sum = sum > 0;
        ok &= std::fabs(total.at(index) - sum) <= 8 * tolerance(dtype) * (1 + std::fabs(sum));
      });
      expect(ok, label("gather, scatter", dtype, layout));
    }
  }
}

void check_order() {
  for (DType dtype : kAll) {
    for (Layout layout : kLayouts) {
      Tensor a({4, 513}, dtype, layout), order({4, 513}, DType::i64), places({4, 513}, DType::i64);
      a.fill([&] { return small(dtype); });
      table->argsort(order.view, a.view, 1, false);
      Tensor sorted({513}, dtype);
      View row = a.view, row_order = order.view;
      row.ndim = row_order.ndim = 1;
      row.shape[0] = row_order.shape[0] = 513;
      row.strides[0] = a.view.strides[1];
      row_order.strides[0] = 1;
      table->gather(sorted.view, row, &row_order, 1);
      table->searchsorted(places.view, sorted.view, a.view, false);
      bool ok = true;
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t i = 1; i < 513; ++i) {
          const auto before = static_cast<int64_t>(order.at({r, i - 1}));
          const auto here = static_cast<int64_t>(order.at({r, i}));
          const double x = a.at({r, before}), y = a.at({r, here});
          ok &= x < y || (x == y && before < here);
        }
      }
      for_each_index(places.view, [&](const auto& index) {
        const auto place = static_cast<int64_t>(places.at(index));
        ok &= place == 0 || sorted.at({place - 1}) < a.at(index);
        ok &= place == 513 || sorted.at({place}) >= a.at(index);
      });
      const int64_t count = table->count_nonzero(a.view);
      std::vector<int64_t> coordinates(static_cast<size_t>(2 * count));
      table->nonzero(a.view, coordinates.data());
      size_t next = 0;
      for_each_index(a.view, [&](const auto& index) {
        if (a.at(index) == 0) return;
        ok &= next + 1 < coordinates.size() && coordinates[next] == index[0] &&
              coordinates[next + 1] == index[1];
        next += 2;
      });
      expect(ok && next == coordinates.size(), label("order", dtype, layout));
    }
  }
}

void check_random() {
  // The first block of the paper's reference implementation with key 0, counter 0.
  constexpr uint32_t kKnown[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  Tensor first({4}, DType::f32), all({40000}, DType::f32), part({123}, DType::f32);
  table->random(RandomOp::uniform, first.view, 0, 0);
  bool ok = true;
  for (int64_t i = 0; i < 4; ++i) ok &= first.at({i}) == (kKnown[i] >> 8) * 0x1p-24;
  table->random(RandomOp::uniform, all.view, 42, 0);
  table->random(RandomOp::uniform, part.view, 42, 17777);
  double mean = 0;
  for (int64_t i = 0; i < 123; ++i) ok &= part.at({i}) == all.at({17777 + i});
  for (int64_t i = 0; i < 40000; ++i) mean += all.at({i}) / 40000;
  expect(ok && std::fabs(mean - 0.5) < 0.01, "random");
}

bool run_all() {
  bool passed = true;
  for (const KernelTable* candidate : usable_tables()) {
    table = candidate;
    checks = failures = 0;
    generator.seed(1);
    check_halves();
    check_copies();
    check_elementwise();
    check_reductions();
    check_matmuls();
    check_indexing();
    check_order();
    check_random();
    std::printf("%s: %d of %d checks passed\n", table->name, checks - failures, checks);
    passed &= failures == 0;
  }
  return passed;
}

}  // namespace
}  // namespace needle

int main(int count, char** words) {
  if (count < 2 || std::strcmp(words[1], "accuracy") != 0) return needle::run_all() ? 0 : 1;
  const unsigned long every = count > 2 ? std::strtoul(words[2], nullptr, 10) : 1;
  bool passed = every > 0;
  for (const needle::KernelTable* table : needle::usable_tables()) {
    passed = passed && needle::check_accuracy(*table, static_cast<uint32_t>(every));
  }
  return passed ? 0 : 1;
}
