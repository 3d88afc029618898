#include <math.h>
#include <stdint.h>
#include <string.h>

#define CHOOSE(c, x, y) ((c) ? (x) : (y))

// The limits of each type, which reductions start with.
#define LOWEST_f32 (-INFINITY)
#define LOWEST_f64 (-INFINITY)
#define LOWEST_i32 INT32_MIN
#define LOWEST_i64 INT64_MIN
#define LOWEST_b8 0
#define HIGHEST_f32 INFINITY
#define HIGHEST_f64 INFINITY
#define HIGHEST_i32 INT32_MAX
#define HIGHEST_i64 INT64_MAX
#define HIGHEST_b8 1

// Loops whose rounds do not depend on each other: an output may be an input's very memory, never
// shifted against it.
#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define EACH _Pragma("GCC ivdep")
#else
#define EACH
#endif

// n numbers in [0, 1) from the words first, first + step, ... of a random stream: native code.
typedef void draw_fn(float *out, int64_t n, uint64_t seed, uint64_t first, int64_t step);
