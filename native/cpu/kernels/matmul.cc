#include "entries.h"
#include "product.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

using MatmulFn = void (*)(const View& out, const View& a, const View& b);

// The operands of a product with an epilogue: outputs, a, b, then the program's inputs from 1 on.
struct Operands {
  const TileProgram& program;
  const View* const* all;

  const View& output(int k) const { return *all[k]; }
  const View& a() const { return *all[program.n_outputs]; }
  const View& b() const { return *all[program.n_outputs + 1]; }

  bool is_input_memory(const View& out) const {
    for (int k = 0; k <= program.n_inputs; ++k) {
      if (all[program.n_outputs + k]->data == out.data) return true;
    }
    return false;
  }

  // The output whose memory can hold the product until the program writes it, or -1.
  int holder() const {
    for (int k = 0; k < program.n_outputs; ++k) {
      if (output(k).dtype == DType::f32 && !is_input_memory(output(k))) return k;
    }
    return -1;
  }
};

// Is it a product that gemm.h computes in tiles, and may the program run before all is read?
bool takes_tiles(const Operands& o, int holder) {
  const View& out = o.output(0);
  if (out.ndim != 2 || o.a().shape[1] == 0) return false;
  if (out.shape[0] <= kFewRows || out.shape[1] <= kFewRows) return false;
  if (holder >= 0 && o.output(holder).strides[1] != 1) return false;
  for (int k = 0; k < o.program.n_outputs; ++k) {
    if (o.is_input_memory(o.output(k))) return false;
  }
  return true;
}

void multiply_in_tiles(const Operands& o, int holder) {
  const TileProgram& program = o.program;
  const View& out = o.output(max_of(0, holder));
  const auto matrix = [&](const View& v) {
    return Matrix<float>{v.data, byte_stride(v, 0), byte_stride(v, 1),
                         source_of<float, float>(v.dtype), v.dtype};
  };
  const Result<float> result = {out.data, byte_stride(out, 0), byte_stride(out, 1), nullptr,
                                holder >= 0};
  const Product<float> product = {result,       matrix(o.a()), matrix(o.b()),
                                  out.shape[0], out.shape[1],  o.a().shape[1]};
  const Epilogue epilogue = {&program, o.all, o.all + program.n_outputs + 1};
  Gemm<float>(product, &epilogue).run();
}

void multiply_then_run(const Operands& o, int holder, MatmulFn matmul) {
  const TileProgram& program = o.program;
  View product = o.output(max_of(0, holder));
  const Workspace workspace(holder >= 0 ? 0 : product.size() * 4);
  if (holder < 0) {
    product.data = workspace.as<char>();
    product.dtype = DType::f32;
    int64_t stride = 1;
    for (int axis = product.ndim - 1; axis >= 0; stride *= product.shape[axis--]) {
      product.strides[axis] = stride;
    }
  }
  matmul(product, o.a(), o.b());
  const View* operands[kMaxProgramOperands];
  for (int k = 0; k < program.n_outputs; ++k) operands[k] = &o.output(k);
  operands[program.n_outputs] = &product;
  for (int k = 1; k < program.n_inputs; ++k) {
    operands[program.n_outputs + k] = o.all[program.n_outputs + 1 + k];
  }
  run_program(program, operands, 0);
}

}  // namespace

void matmul(const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  const Unaliased left(a, out), right(b, out);
  with_dtype(out.dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    multiply_views<E>(out, left.view(), right.view(), multiply<Wrapping<Compute<E>>>);
  });
}

void matmul_then(const TileProgram& program, const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const Operands all = {program, operands};
  const int holder = all.holder();
  if (takes_tiles(all, holder)) return multiply_in_tiles(all, holder);
  multiply_then_run(all, holder, matmul);
}

#if defined(__AVX512F__)
void matmul_then_amx(const TileProgram& program, const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const Operands all = {program, operands};
  multiply_then_run(all, all.holder(), matmul_amx);
}
#endif

}  // namespace NEEDLE_ISA
}  // namespace needle
