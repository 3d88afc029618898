#include "kernels/entries.h"
#include "product.h"

namespace needle::NEEDLE_ISA {

void multiply_floats(const Product<float>& p) { multiply(p); }

void matmul(const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  const Unaliased left(a, out), right(b, out);
  with_compute_type(out.dtype, [&](auto tag) {
    using As = typename decltype(tag)::type;
    multiply_views<As>(out, left.view(), right.view(), multiply<Wrapping<As>>);
  });
}

void matmul_then(const TileProgram& program, const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const ThenOperands all = {program, operands};
  const int holder = all.holder();
  if (!takes_tiles(all, holder)) {
    return all.run_apart([&](const View& product) { matmul(product, all.a(), all.b()); });
  }
  const Epilogue epilogue = all.epilogue();
  const Product<float> product = product_of(all, holder);
  if (has_long_sums(product)) return LongSums<float>(product).run(&epilogue);
  Gemm<float>(product, &epilogue).run();
}

void matmul_of(const TileProgram& program, const TileProgram* then, const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const OfOperands all = {program, then, operands};
  const Prologue prologue = all.prologue();
  const View a = left_factor(all);
  const bool is_done = with_tiles(all, a, [&](const Product<float>& p, const Epilogue* epilogue) {
    Gemm<float>(p, epilogue, &prologue).run();
    return true;
  });
  if (is_done) return;
  all.run_apart(a, [&](const View* const* v) {
    then == nullptr ? matmul(*v[0], *v[1], *v[2]) : matmul_then(*then, v);
  });
}

}  // namespace needle::NEEDLE_ISA
