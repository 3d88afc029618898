// Integer and bit instructions, selection and comparison of integers.
#include "lanes.h"

namespace ptxsim::PTXSIM_ISA {
namespace {

__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;

struct Add {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Sub {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct Mul {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(u64{a} * b);
  }
};
struct Mad {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(u64{a} * b + c);
  }
};
template <class W>
struct High {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((W{a} * W{b}) >> (8 * sizeof(T)));
  }
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(of(a, b) + c);
  }
};
template <class W>
struct Wide {
  template <class T>
  static W of(T a, T b) {
    return W{a} * W{b};
  }
  template <class T>
  static W of(T a, T b, W c) {
    return W{a} * W{b} + c;
  }
};

// The low 24 bits of both; `hi` gives bits 47..16 of the product.
struct Mul24Lo {
  static u32 of(u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); }
};
struct Mul24Hi {
  static u32 of(u32 a, u32 b) {
    return static_cast<u32>((u64{a & 0xffffff} * (b & 0xffffff)) >> 16);
  }
};

// As GPUs divide by zero: all bits set, and the dividend for a remainder.
struct Div {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (T(-1) < 0 && b == static_cast<T>(-1)) return static_cast<T>(0 - a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if (T(-1) < 0 && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Abs {
  template <class T>
  static T of(T a) {
    return static_cast<T>(a < 0 ? 0 - a : a);
  }
};
struct Neg {
  template <class T>
  static T of(T a) {
    return static_cast<T>(0 - a);
  }
};
struct Sad {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(c + (a < b ? b - a : a - b));
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  static T of(T a) {
    return a == 0;
  }
};
struct Copy {
  template <class T>
  static T of(T a) {
    return a;
  }
};

// Shifts by more than the width give what all bits shifted out leaves.
struct Shl {
  template <class T>
  static T of(T a, u32 n) {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << n);
  }
};
struct Shr {
  template <class T>
  static T of(T a, u32 n) {
    constexpr u32 bits = 8 * sizeof(T);
    return static_cast<T>(n < bits ? a >> n : T(-1) < 0 && a < 0 ? -1 : 0);
  }
};
// Funnel shifts of b:a; the amount is clamped to 32 or wraps around.
template <bool Left, bool Wrap>
struct Funnel {
  static u32 of(u32 a, u32 b, u32 n) {
    n = Wrap ? n & 31 : n > 32 ? 32 : n;
    const u64 both = u64{b} << 32 | a;
    return static_cast<u32>(Left ? both << n >> 32 : both >> n);
  }
};

struct Popc {
  template <class T>
  static u32 of(T a) {
    return static_cast<u32>(__builtin_popcountll(a));
  }
};
struct Clz {
  template <class T>
  static u32 of(T a) {
    constexpr u32 bits = 8 * sizeof(T);
    return a == 0 ? bits : static_cast<u32>(__builtin_clzll(a)) - (64 - bits);
  }
};
struct Brev {
  template <class T>
  static T of(T a) {
    T reversed = 0;
    for (u32 i = 0; i < 8 * sizeof(T); ++i, a >>= 1)
      reversed = static_cast<T>(reversed << 1 | (a & 1));
    return reversed;
  }
};
// The position of the highest bit that differs from the sign; -1 if there is none.
template <bool ShiftAmount>
struct Bfind {
  template <class T>
  static u32 of(T a) {
    constexpr u32 bits = 8 * sizeof(T);
    const u64 magnitude = static_cast<u64>(a < 0 ? ~a : a);
    if (magnitude == 0) return ~0u;
    const u32 position = 63 - static_cast<u32>(__builtin_clzll(magnitude));
    return ShiftAmount ? bits - 1 - position : position;
  }
};
struct Bfe {
  template <class T>
  static T of(T a, u32 position, u32 length) {
    constexpr u32 bits = 8 * sizeof(T);
    position &= 255, length &= 255;
    constexpr bool is_signed = T(-1) < 0;
    if (length == 0) return 0;
    // Beyond the top, the field is filled with the sign (of its highest bit that exists).
    const u32 top = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
    const bool sign = is_signed && (static_cast<u64>(a) >> top & 1);
    u64 field = position >= bits ? 0 : (static_cast<u64>(a) & (~u64{0} >> (64 - bits))) >> position;
    const u32 kept = position >= bits ? 0 : top - position + 1;
    if (kept < 64) field &= (u64{1} << kept) - 1;
    if (sign && kept < 64) field |= ~u64{0} << kept;
    return static_cast<T>(field);
  }
};
struct Bfi {
  template <class T>
  static T of(T a, T b, u32 position, u32 length) {
    position &= 255, length &= 255;
    if (position >= 8 * sizeof(T)) return b;
    const u64 mask = (length >= 64 ? ~u64{0} : (u64{1} << length) - 1) << position;
    return static_cast<T>((b & ~mask) | ((u64{a} << position) & mask));
  }
};
struct Bmsk {
  static u32 of(u32 position, u32 length) {
    if (position > 31) return 0;
    const u32 ones = length > 31 ? ~0u : (1u << length) - 1;
    return ones << position;
  }
};
// Four bytes out of eight, by four selectors; bit 3 of a selector repeats the byte's sign.
struct Prmt {
  static u32 of(u32 a, u32 b, u32 selectors) {
    const u64 bytes = u64{b} << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 selector = selectors >> (4 * i) & 15;
      u32 byte = static_cast<u32>(bytes >> (8 * (selector & 7))) & 0xff;
      if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
template <class A, class B>
struct Dp4a {
  static u32 of(u32 a, u32 b, u32 c) {
    for (u32 i = 0; i < 32; i += 8)
      c += static_cast<u32>(s32{static_cast<A>(a >> i)} * s32{static_cast<B>(b >> i)});
    return c;
  }
};
template <class A, class B, u32 Half>
struct Dp2a {
  static u32 of(u32 a, u32 b, u32 c) {
    using A16 = typename Choose<(A(-1) < 0), s16, u16>::type;
    for (u32 i = 0; i < 2; ++i)
      c += static_cast<u32>(s32{static_cast<A16>(a >> (16 * i))}) *
           static_cast<u32>(s32{static_cast<B>(b >> (16 * Half + 8 * i))});
    return c;
  }
};

struct Eq {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct Lt {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};

template <class T>
void select(const char* registers, const u32* sources, void* result) {
  const T* a = source<T>(registers, sources[0]);
  const T* b = source<T>(registers, sources[1]);
  const u32 mask = *reinterpret_cast<const u32*>(registers + sources[2]);
  T* d = static_cast<T*>(result);
  EACH_LANE d[l] = mask >> l & 1 ? a[l] : b[l];
}

// slct: a where c >= 0, else b.
template <class T, class C>
void select_by_sign(const char* registers, const u32* sources, void* result) {
  const T* a = source<T>(registers, sources[0]);
  const T* b = source<T>(registers, sources[1]);
  const C* c = source<C>(registers, sources[2]);
  T* d = static_cast<T*>(result);
  EACH_LANE d[l] = c[l] >= 0 ? a[l] : b[l];
}

// A function of three bits, as a table of its eight results.
void lop3(const char* registers, const u32* sources, void* result) {
  const u32* a = source<u32>(registers, sources[0]);
  const u32* b = source<u32>(registers, sources[1]);
  const u32* c = source<u32>(registers, sources[2]);
  const u32 table = *source<u32>(registers, sources[3]);
  u32 term[8];
  for (u32 i = 0; i < 8; ++i) term[i] = table >> i & 1 ? ~0u : 0;
  u32* d = static_cast<u32*>(result);
  EACH_LANE {
    const u32 x = a[l], y = b[l], z = c[l];
    d[l] =
        (~x & ((~y & ((~z & term[0]) | (z & term[1]))) | (y & ((~z & term[2]) | (z & term[3]))))) |
        (x & ((~y & ((~z & term[4]) | (z & term[5]))) | (y & ((~z & term[6]) | (z & term[7])))));
  }
}

template <class Op>
void masks(const char* registers, const u32* sources, void* result) {
  const u32 a = *source<u32>(registers, sources[0]), b = *source<u32>(registers, sources[1]);
  *static_cast<u32*>(result) = Op::of(a, b);
}
template <class Op>
void mask(const char* registers, const u32* sources, void* result) {
  *static_cast<u32*>(result) = Op::of(*source<u32>(registers, sources[0]));
}

const Form kTable[] = {
#define BOTH(name, op, kind, T, width, text) \
  {name ".u" text, width, kind<op, T>}, {name ".s" text, width, kind<op, T>},
#define WRAPPING(name, op, kind, w, d) \
  BOTH(name, op, kind, u16, w, "16")   \
  BOTH(name, op, kind, u32, w, "32")   \
  BOTH(name, op, kind, u64, d, "64")
#define SIGNED_TOO(name, op, kind, w, d)                                \
  {name ".u16", w, kind<op, u16>}, {name ".s16", w, kind<op, s16>},     \
      {name ".u32", w, kind<op, u32>}, {name ".s32", w, kind<op, s32>}, \
      {name ".u64", d, kind<op, u64>}, {name ".s64", d, kind<op, s64>},
    WRAPPING("add", Add, two, "www", "ddd") WRAPPING("sub", Sub, two, "www", "ddd") WRAPPING(
        "mul.lo", Mul, two, "www", "ddd") WRAPPING("mad.lo", Mad, three, "wwww", "dddd")
        SIGNED_TOO("div", Div, two, "www", "ddd") SIGNED_TOO("rem", Rem, two, "www", "ddd")
            SIGNED_TOO("min", Min, two, "www", "ddd") SIGNED_TOO(
                "max", Max, two, "www", "ddd") SIGNED_TOO("sad", Sad, three, "wwww", "dddd")
                SIGNED_TOO("setp.eq", Eq, compare, "pww", "pdd") SIGNED_TOO(
                    "setp.lt", Lt, compare, "pww", "pdd") SIGNED_TOO("setp.le", Le, compare, "pww",
                                                                     "pdd")
#define HIGH(T, W, text, w3, w4) \
  {"mul.hi." text, w3, two<High<W>, T>}, {"mad.hi." text, w4, three<High<W>, T>},
                    HIGH(u16, u32, "u16", "www", "wwww") HIGH(s16, s32, "s16", "www", "wwww") HIGH(
                        u32, u64, "u32", "www", "wwww") HIGH(s32, s64, "s32", "www", "wwww")
                        HIGH(u64, u128, "u64", "ddd", "dddd") HIGH(s64, s128, "s64", "ddd", "dddd")
#define WIDE(T, W, text, w3, w4) \
  {"mul.wide." text, w3, two<Wide<W>, T, T, W>}, {"mad.wide." text, w4, three<Wide<W>, T, T, W, W>},
                            WIDE(u16, u32, "u16", "www", "wwww") WIDE(
                                s16, s32, "s16", "www", "wwww") WIDE(u32, u64, "u32", "dww", "dwwd")
                                WIDE(s32, s64, "s32", "dww", "dwwd"){"mul24.lo.u32", "www",
                                                                     two<Mul24Lo, u32>},
    {"mul24.hi.u32", "www", two<Mul24Hi, u32>},
    {"abs.s16", "ww", one<Abs, s16>},
    {"abs.s32", "ww", one<Abs, s32>},
    {"abs.s64", "dd", one<Abs, s64>},
    {"neg.s16", "ww", one<Neg, s16>},
    {"neg.s32", "ww", one<Neg, s32>},
    {"neg.s64", "dd", one<Neg, s64>},

#define BITS(name, op, kind, w, d) \
  {name ".b16", w, kind<op, u16>}, {name ".b32", w, kind<op, u32>}, {name ".b64", d, kind<op, u64>},
    BITS("and", And, two, "www", "ddd") BITS("or", Or, two, "www", "ddd")
        BITS("xor", Xor, two, "www", "ddd") BITS("not", Not, one, "ww", "dd")
            BITS("cnot", Cnot, one, "ww", "dd")
                BITS("mov", Copy, one, "ww", "dd"){"and.pred", "ppp", masks<And>},
    {"or.pred", "ppp", masks<Or>},
    {"xor.pred", "ppp", masks<Xor>},
    {"not.pred", "pp", mask<Not>},
    {"mov.pred", "pp", mask<Copy>},

#define SHIFT(name, op, T, text, w) {name "." text, w, two<op, T, u32>},
    SHIFT("shl", Shl, u16, "b16", "www") SHIFT("shl", Shl, u32, "b32", "www")
        SHIFT("shl", Shl, u64, "b64", "ddw") SHIFT("shr", Shr, u16, "u16", "www")
            SHIFT("shr", Shr, u32, "u32", "www") SHIFT("shr", Shr, u64, "u64", "ddw")
                SHIFT("shr", Shr, s16, "s16", "www") SHIFT("shr", Shr, s32, "s32", "www")
                    SHIFT("shr", Shr, s64, "s64", "ddw"){"shf.l.clamp.b32", "wwww",
                                                         three<Funnel<true, false>, u32>},
    {"shf.l.wrap.b32", "wwww", three<Funnel<true, true>, u32>},
    {"shf.r.clamp.b32", "wwww", three<Funnel<false, false>, u32>},
    {"shf.r.wrap.b32", "wwww", three<Funnel<false, true>, u32>},

    {"popc.b32", "ww", one<Popc, u32, u32>},
    {"popc.b64", "wd", one<Popc, u64, u32>},
    {"clz.b32", "ww", one<Clz, u32, u32>},
    {"clz.b64", "wd", one<Clz, u64, u32>},
    {"brev.b32", "ww", one<Brev, u32>},
    {"brev.b64", "dd", one<Brev, u64>},
#define BFIND(T, text, w)                        \
  {"bfind." text, w, one<Bfind<false>, T, u32>}, \
      {"bfind.shiftamt." text, w, one<Bfind<true>, T, u32>},
    BFIND(u32, "u32", "ww") BFIND(s32, "s32", "ww") BFIND(u64, "u64", "wd")
        BFIND(s64, "s64", "wd"){"bfe.u32", "wwww", three<Bfe, u32, u32, u32>},
    {"bfe.s32", "wwww", three<Bfe, s32, u32, u32>},
    {"bfe.u64", "ddww", three<Bfe, u64, u32, u32>},
    {"bfe.s64", "ddww", three<Bfe, s64, u32, u32>},
    {"bfi.b32", "wwwww", four<Bfi, u32>},
    {"bfi.b64", "dddww", four<Bfi, u64>},
    {"bmsk.clamp.b32", "www", two<Bmsk, u32>},
    {"prmt.b32", "wwww", three<Prmt, u32>},
    {"lop3.b32", "wwwww", lop3},
    {"dp4a.u32.u32", "wwww", three<Dp4a<u8, u8>, u32>},
    {"dp4a.s32.s32", "wwww", three<Dp4a<s8, s8>, u32>},
    {"dp4a.s32.u32", "wwww", three<Dp4a<s8, u8>, u32>},
    {"dp4a.u32.s32", "wwww", three<Dp4a<u8, s8>, u32>},
    {"dp2a.lo.s32.s32", "wwww", three<Dp2a<s8, s8, 0>, u32>},
    {"dp2a.hi.s32.s32", "wwww", three<Dp2a<s8, s8, 1>, u32>},
    {"dp2a.lo.u32.u32", "wwww", three<Dp2a<u8, u8, 0>, u32>},
    {"dp2a.hi.u32.u32", "wwww", three<Dp2a<u8, u8, 1>, u32>},

    {"selp.b32", "wwwp", select<u32>},
    {"selp.b64", "dddp", select<u64>},
    {"slct.b32.s32", "wwww", select_by_sign<u32, s32>},
    {"slct.b32.f32", "wwww", select_by_sign<u32, float>},
    {"slct.b64.s32", "dddw", select_by_sign<u64, s32>},
    {"slct.b64.f32", "dddw", select_by_sign<u64, float>},
};

}  // namespace

Forms integer_forms() { return {kTable, sizeof kTable / sizeof *kTable}; }

}  // namespace ptxsim::PTXSIM_ISA
