#include "entries.h"
#include "product.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// Is it a product that gemm.h computes in tiles, and may the program run before all is read?
bool takes_tiles(const ThenOperands& o, int holder) {
  const View& out = o.output(0);
  if (out.ndim != 2 || o.a().shape[1] == 0) return false;
  if (out.shape[0] <= kFewRows || out.shape[1] <= kFewRows) return false;
  if (holder >= 0 && o.output(holder).strides[1] != 1) return false;
  return o.writes_no_input();
}

void multiply_in_tiles(const ThenOperands& o, int holder) {
  const View& out = o.output(max_of(0, holder));
  const auto matrix = [&](const View& v) {
    return Matrix<float>{v.data, byte_stride(v, 0), byte_stride(v, 1),
                         source_of<float, float>(v.dtype), v.dtype};
  };
  const Result<float> result = {out.data, byte_stride(out, 0), byte_stride(out, 1), nullptr,
                                holder >= 0};
  const Product<float> product = {result,       matrix(o.a()), matrix(o.b()),
                                  out.shape[0], out.shape[1],  o.a().shape[1]};
  const Epilogue epilogue = o.epilogue();
  Gemm<float>(product, &epilogue).run();
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
  const ThenOperands all = {program, operands};
  const int holder = all.holder();
  if (takes_tiles(all, holder)) return multiply_in_tiles(all, holder);
  all.run_apart([&](const View& product) { matmul(product, all.a(), all.b()); });
}

#if defined(__AVX512F__)
void matmul_then_amx(const TileProgram& program, const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const ThenOperands all = {program, operands};
  all.run_apart([&](const View& product) { matmul_amx(product, all.a(), all.b()); });
}
#endif

}  // namespace NEEDLE_ISA
}  // namespace needle
