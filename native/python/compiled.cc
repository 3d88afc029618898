// Functions that a C compiler made, on the thread pool: run_compiled has those of tile programs
// (needle/backend/render/c11.py), run_c those of the user (needle/ndarray/kernels/c_kernel.py).
#include <algorithm>
#include <memory>
#include <vector>

#include "bindings.h"
#include "core/parallel.h"

namespace needle {
namespace {

using RowsFn = void (*)(void* const* at, int64_t begin, int64_t end, double* totals);
using FinishFn = void (*)(void* const* at, const double* totals);

constexpr Site kCompiledSite{"run_compiled", "calls"};

// Rows [0, rows) of one call, in pieces of `grain`. Each piece has `columns` totals of its own,
// which are added up in order and given to `finish`.
struct CompiledCall {
  RowsFn run;
  FinishFn finish;
  int64_t rows, grain, columns;
  int64_t first_piece, first_view;
  int n_views;

  int64_t pieces() const { return (rows + grain - 1) / grain; }
};

template <class T>
T function_at(nb::handle address) {
  return reinterpret_cast<T>(
      static_cast<uintptr_t>(read_int(address, kCompiledSite, "an address")));
}

class CompiledCalls {
 public:
  void add(nb::handle item) {
    const nb::tuple fields = nb::cast<nb::tuple>(item);
    if (fields.size() != 7) raise_value(kCompiledSite, "expected 7 fields, got %zu", fields.size());
    CompiledCall call{};
    call.run = function_at<RowsFn>(fields[0]);
    call.finish = function_at<FinishFn>(fields[1]);
    call.first_view = static_cast<int64_t>(operands_.size());
    std::vector<Operand> operands = read_operands(fields[2], fields[3], kCompiledSite.kernel);
    call.n_views = static_cast<int>(operands.size());
    std::move(operands.begin(), operands.end(), std::back_inserter(operands_));
    call.rows = read_int(fields[4], kCompiledSite, "the number of rows");
    call.grain = read_int(fields[5], kCompiledSite, "the grain");
    call.columns = read_int(fields[6], kCompiledSite, "the number of columns");
    if (call.run == nullptr || call.rows < 0 || call.grain < 1 || call.columns < 0 ||
        (call.columns > 0 && call.finish == nullptr)) {
      raise_value(kCompiledSite, "expected a function, rows, a grain and columns");
    }
    call.first_piece = pieces_;
    pieces_ += call.pieces();
    calls_.push_back(call);
  }

  void launch_all() {
    int64_t work = 0;
    for (const Operand& operand : operands_) work += operand.view.size();
    launch(work, views_of(operands_),
           [calls = std::move(calls_), pieces = pieces_](Views v) { run_all(calls, pieces, v); });
  }

 private:
  // Each call gets its operands' memory, and the function that draws random numbers.
  static void run_all(const std::vector<CompiledCall>& calls, int64_t pieces, Views views) {
    std::vector<void*> at;
    std::vector<size_t> first;
    for (const CompiledCall& call : calls) {
      first.push_back(at.size());
      for (int k = 0; k < call.n_views; ++k) at.push_back(views[call.first_view + k]->data);
      at.push_back(reinterpret_cast<void*>(kernels().draw_uniforms));
    }
    std::vector<std::vector<double>> totals;
    for (const CompiledCall& call : calls) {
      totals.emplace_back(static_cast<size_t>(call.columns * call.pieces()));
    }
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      size_t c = 0;
      for (int64_t piece = begin; piece < end; ++piece) {
        while (piece >= calls[c].first_piece + calls[c].pieces()) ++c;
        const CompiledCall& call = calls[c];
        const int64_t own = piece - call.first_piece, row = own * call.grain;
        call.run(at.data() + first[c], row, std::min(call.rows, row + call.grain),
                 totals[c].data() + own * call.columns);
      }
    });
    for (size_t c = 0; c < calls.size(); ++c) {
      const CompiledCall& call = calls[c];
      if (call.columns == 0) continue;
      double* const total = totals[c].data();
      for (int64_t i = call.columns; i < call.columns * call.pieces(); ++i) {
        total[i % call.columns] += total[i];
      }
      call.finish(at.data() + first[c], total);
    }
  }

  std::vector<Operand> operands_;
  std::vector<CompiledCall> calls_;
  int64_t pieces_ = 0;
};

void run_compiled(nb::handle calls) {
  CompiledCalls all;
  for (const nb::handle call : nb::cast<nb::tuple>(calls)) all.add(call);
  all.launch_all();
}

using UserFn = void (*)(void* const* at, const int64_t* const* shapes, int64_t begin, int64_t end);

constexpr int64_t kPieceElements = 32768;  // of the largest operand: some 10 us of arithmetic

// Iterations [0, count) of a function, in so many pieces at most.
void run_pieces(UserFn function, int64_t count, int64_t pieces, Views views, size_t number) {
  std::vector<void*> at(number);
  std::vector<const int64_t*> shapes(number);
  for (size_t k = 0; k < number; ++k) {
    at[k] = views[k]->data;
    shapes[k] = views[k]->shape;
  }
  if (count == 0) return;
  const int64_t grain = (count - 1) / pieces + 1;
  parallel_for((count - 1) / grain + 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * grain;
      function(at.data(), shapes.data(), begin, begin + std::min(grain, count - begin));
    }
  });
}

void run_c(nb::handle function, nb::handle outs, nb::handle ins, nb::handle iterations) {
  constexpr Site site{"run_c"};
  const int64_t count = read_int(iterations, site, "the number of iterations");
  if (count < 0) raise_value(site, "expected a count of iterations, got %lld", (long long)count);
  const std::vector<Operand> operands = read_operands(outs, ins, "run_c");
  const auto address = function_at<UserFn>(function.attr("address"));
  if (address == nullptr) raise_value(site, "expected a function");
  int64_t largest = 1;
  for (const Operand& operand : operands) {
    if (!is_compact(operand.view)) raise_value(site, "expected compact operands");
    largest = std::max(largest, operand.view.size());
  }
  const int64_t pieces = largest / kPieceElements + 1;
  launch(largest, views_of(operands), [address, count, pieces, number = operands.size()](Views v) {
    run_pieces(address, count, pieces, v, number);
  });
}

}  // namespace

void bind_compiled(nb::module_& m) {
  m.def("run_compiled", run_compiled, nb::arg("calls"));
  m.def("run_c", run_c, nb::arg("function"), nb::arg("outs"), nb::arg("ins"), nb::arg("count"));
}

}  // namespace needle
