#include "entries.h"
#include "product.h"

namespace needle {
namespace NEEDLE_ISA {

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
  if (!takes_tiles(all, holder)) {
    return all.run_apart([&](const View& product) { matmul(product, all.a(), all.b()); });
  }
  const Epilogue epilogue = all.epilogue();
  Gemm<float>(product_of(all, holder), &epilogue).run();
}

}  // namespace NEEDLE_ISA
}  // namespace needle
