// The elementwise functions by name: Formula<UnaryOp::exp>::apply(x), or exp(x), for every compute
// type that they have a meaning for. It is the function of elements/ for x's type, or else the
// formula of elementwise.def.
//
// It is read by the kernels of the CPU (kernels/math/formulas.h), where Single is a float or a
// vector of them, and by those of CUDA (cuda/kernels/operand.cuh), each inside of its namespace and
// after elementwise.h and the functions of elements/. Who includes this defines ELEMENT, the
// constant is_same<A, B> and the concept Single.

template <auto op>  // a UnaryOp or BinaryOp
struct Formula;

// In formulas, functions go by their bare names.
#define UNARY(name, ...)                         \
  template <class T, UnaryOp op = UnaryOp::name> \
  ELEMENT auto name(T x) {                       \
    return Formula<op>::apply(x);                \
  }
#define BINARY(name, ...)                          \
  template <class T, BinaryOp op = BinaryOp::name> \
  ELEMENT auto name(T x, T y) {                    \
    return Formula<op>::apply(x, y);               \
  }
#include "elementwise.def"

template <class T>
concept Double = is_same<T, double>;
template <class T>
concept Int32 = is_same<T, int32_t>;
template <class T>
concept Int64 = is_same<T, int64_t>;
template <class T>
concept Bool = is_same<T, uint8_t>;

// A function goes before the formula, as its type is said.
#define NEEDLE_FUNCTION(Type, function, parameters, arguments) \
  template <Type T>                                            \
    requires(requires parameters { function arguments; })      \
  ELEMENT static auto apply parameters {                       \
    return function arguments;                                 \
  }
#define NEEDLE_FORMULA(op, name, kind, parameters, arguments, ...)                              \
  template <>                                                                                   \
  struct Formula<op::name> {                                                                    \
    static constexpr ElementwiseKind kKind = ElementwiseKind::kind;                             \
    NEEDLE_FUNCTION(Single, name##_f32, parameters, arguments)                                  \
    NEEDLE_FUNCTION(Double, name##_f64, parameters, arguments)                                  \
    NEEDLE_FUNCTION(Int32, name##_i32, parameters, arguments)                                   \
    NEEDLE_FUNCTION(Int64, name##_i64, parameters, arguments)                                   \
    NEEDLE_FUNCTION(Bool, name##_b8, parameters, arguments)                                     \
    __VA_OPT__(template <class T> ELEMENT static auto apply parameters { return __VA_ARGS__; }) \
  };
#define UNARY(name, kind, ...) \
  NEEDLE_FORMULA(UnaryOp, name, kind, (T x), (x)__VA_OPT__(, ) __VA_ARGS__)
#define BINARY(name, kind, ...) \
  NEEDLE_FORMULA(BinaryOp, name, kind, (T x, T y), (x, y)__VA_OPT__(, ) __VA_ARGS__)
#include "elementwise.def"
#undef NEEDLE_FORMULA
#undef NEEDLE_FUNCTION
