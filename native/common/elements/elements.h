// The functions of one element, for numbers. Everything in this folder is written in the common
// subset of C11, C++20 and CUDA C, and is read three ways: by the kernels, on every instruction set
// (kernels/math/elements.h) and in vectors (kernels/simd/floats.h); by generated and exported C
// (backend/c_elements.py); by kernels for other devices, where ELEMENT adds what they need.
//
// name_type(x) is the function `name` of elementwise.def on a type that elements are computed in:
// f32, f64, i32, i64, b8. All give the same bits everywhere if nothing is contracted
// (-ffp-contract=off), and NumPy's results at the edges. Who includes this defines
//
//   ELEMENT          what comes before a function (static inline)
//   LIB(name)        a function of the C library
//   choose(c, x, y)  c ? x : y
//
// and includes math.h, stdint.h and string.h, or knows what they define by itself. Files that are
// written for a type with a macro's name are included once for each.

#include "numbers.h"

#include "bool.h"
#include "cast.h"

#define T f32
#define OF(name) name##_f32
#define C(name) LIB(name##f)
#include "real.h"

#define T f64
#define OF(name) name##_f64
#define C(name) LIB(name)
#include "real.h"

#define T i32
#define U u32
#define OF(name) name##_i32
#include "integer.h"

#define T i64
#define U u64
#define OF(name) name##_i64
#include "integer.h"

#include "double.h"
#include "float_in_double.h"

#define F f32
#define I i32
#define U u32
#define RARE ELEMENT
#define EXP_OF_ANY exp_f32
#include "float.h"
