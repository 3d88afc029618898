// out = FUNCTION(a), element by element: -DFUNCTION=exp -DDTYPE=f32. A predicate gives bool.
#include "operand.cuh"

using namespace needle;

using F = Formula<UnaryOp::FUNCTION>;
using Out = Result<F, DTYPE>;

extern "C" __global__ void unary(const __grid_constant__ Operands<2, RANK> x) {
  for_each_element(x, [&](Places<2> at) {
    *x.at<Out>(0, at[0]) = stored<Out>(F::apply(loaded(*x.at<DTYPE>(1, at[1]))));
  });
}
