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

}  // namespace NEEDLE_ISA
}  // namespace needle
