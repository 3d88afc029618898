// out = FUNCTION(a, b), element by element: -DFUNCTION=add -DDTYPE=f32. A predicate gives bool.
// One of a and b may be a number instead, whose operand then is never read.
#include "operand.cuh"

using namespace needle;

using F = Formula<BinaryOp::FUNCTION>;
using Out = Result<F, DTYPE>;
using C = Computed<DTYPE>;

struct Binary {
  Operands<3, RANK> x;
  i32 number_is;  // the operand 1 or 2, or 0: there is none
  Number number;
};

extern "C" __global__ void binary(const __grid_constant__ Binary p) {
  const C number = p.number.as<C>();
  for_each_element(p.x, [&](Places<3> at) {
    const C a = p.number_is == 1 ? number : loaded(*p.x.at<DTYPE>(1, at[1]));
    const C b = p.number_is == 2 ? number : loaded(*p.x.at<DTYPE>(2, at[2]));
    *p.x.at<Out>(0, at[0]) = stored<Out>(F::apply(a, b));
  });
}
