// cvt between any two types, by way of 64-bit integers or float64, which hold all of them.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "../lanes/half_bits.h"
#include "handlers.h"
#include "warp.h"

namespace ptxsim {
namespace {

struct Wide {
  bool is_float, is_signed;
  double f;
  u64 i;
};

bool is_signed(Number type) { return type <= Number::s64_ && static_cast<u32>(type) % 2 == 1; }
bool is_float(Number type) { return type >= Number::f16; }
u32 bits_of_integer(Number type) { return 8u << (static_cast<u32>(type) / 2); }

Wide widen(Number type, u64 bits) {
  switch (type) {
    case Number::u8_: return {false, false, 0, bits & 0xff};
    case Number::s8_: return {false, true, 0, static_cast<u64>(s64{static_cast<s8>(bits)})};
    case Number::u16_: return {false, false, 0, bits & 0xffff};
    case Number::s16_: return {false, true, 0, static_cast<u64>(s64{static_cast<s16>(bits)})};
    case Number::u32_: return {false, false, 0, bits & 0xffffffff};
    case Number::s32_: return {false, true, 0, static_cast<u64>(s64{static_cast<s32>(bits)})};
    case Number::u64_: return {false, false, 0, bits};
    case Number::s64_: return {false, true, 0, bits};
    case Number::f16: return {true, true, F16::up(static_cast<u32>(bits)), 0};
    case Number::bf16: return {true, true, BF16::up(static_cast<u32>(bits)), 0};
    case Number::f64: return {true, true, std::bit_cast<double>(bits), 0};
    default: return {true, true, std::bit_cast<float>(static_cast<u32>(bits)), 0};
  }
}

double round_to_integer(double x, u32 rounding) {
  switch (rounding) {
    case 1: return std::trunc(x);
    case 2: return std::floor(x);
    case 3: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

// To a binary format of `mantissa` bits and exponents from `least` on, as its float64 value.
double round_to_format(double x, int mantissa, int least, u32 rounding) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - 1, least) - mantissa;
  const double scaled = std::ldexp(x, -unit);
  const double rounded = rounding == 4 ? std::copysign(std::floor(std::fabs(scaled) + 0.5), x)
                                       : round_to_integer(scaled, rounding);
  return std::ldexp(rounded, unit);
}

// A rounded value beyond the largest is infinity, or the largest where rounding goes towards zero.
double clamp_to(double x, double largest, u32 rounding, bool finite) {
  if (std::isnan(x) || std::fabs(x) <= largest) return x;
  const bool down = finite || rounding == 1 || (rounding == 2 && x > 0) || (rounding == 3 && x < 0);
  return std::copysign(down && !std::isinf(x) ? largest : finite ? largest : INFINITY, x);
}

float integer_to_float(const Wide& value, u32 rounding) {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const int before = std::fegetround();
  std::fesetround(modes[rounding & 3]);
  volatile u64 i = value.i;
  const float result =
      value.is_signed ? static_cast<float>(static_cast<s64>(i)) : static_cast<float>(i);
  std::fesetround(before);
  return result;
}

double integer_to_double(const Wide& value, u32 rounding) {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const int before = std::fegetround();
  std::fesetround(modes[rounding & 3]);
  volatile u64 i = value.i;
  const double result =
      value.is_signed ? static_cast<double>(static_cast<s64>(i)) : static_cast<double>(i);
  std::fesetround(before);
  return result;
}

u64 to_integer(const Wide& value, Number type, u32 rounding, bool saturate) {
  const u32 bits = bits_of_integer(type);
  const u64 mask = ~u64{0} >> (64 - bits);
  const u64 most = is_signed(type) ? mask >> 1 : mask;
  const s64 least = is_signed(type) ? -static_cast<s64>(mask >> 1) - 1 : 0;
  if (value.is_float) {
    if (std::isnan(value.f)) return 0;
    const double x = round_to_integer(value.f, rounding);
    if (x >= static_cast<double>(most)) return most;
    if (x <= static_cast<double>(least)) return static_cast<u64>(least) & mask;
    return static_cast<u64>(x < 0 ? static_cast<u64>(static_cast<s64>(x)) : static_cast<u64>(x)) &
           mask;
  }
  if (saturate) {
    const s64 i = static_cast<s64>(value.i);
    if (value.is_signed && i < 0) return static_cast<u64>(std::max(i, least)) & mask;
    return std::min(value.i, most);
  }
  return value.i & mask;
}

u64 to_float(const Wide& value, Number type, u32 flags) {
  const u32 rounding = flags >> 8 & 7;
  const bool saturate = flags >> 12 & 1, relu = flags >> 13 & 1, integral = flags >> 15 & 1;
  double x = value.is_float ? value.f : 0;
  if (!value.is_float && type == Number::f32) return bits_of(integer_to_float(value, rounding));
  if (!value.is_float) x = integer_to_double(value, rounding);
  if (integral) x = round_to_integer(x, rounding);
  if (relu && x < 0) x = 0;
  if (saturate) x = x > 0 ? (x < 1 ? x : 1) : 0;
  switch (type) {
    case Number::f16:
      return f16_of(static_cast<float>(
          clamp_to(round_to_format(x, 10, -14, rounding), 65504, rounding, false)));
    case Number::bf16: {
      const double largest = std::ldexp(255.0, 120);
      return bf16_of(static_cast<float>(
          clamp_to(round_to_format(x, 7, -126, rounding), largest, rounding, false)));
    }
    case Number::tf32: {
      const double largest = std::ldexp(2047.0, 117);
      return bits_of(static_cast<float>(
          clamp_to(round_to_format(x, 10, -126, rounding), largest, rounding, false)));
    }
    case Number::f64: return std::bit_cast<u64>(x);
    default: {
      const double largest = std::numeric_limits<float>::max();
      const double rounded = rounding == 0 || integral ? x : round_to_format(x, 23, -126, rounding);
      u32 bits = bits_of(static_cast<float>(
          clamp_to(rounded, rounding == 0 ? INFINITY : largest, rounding, false)));
      if (flags >> 16 & 1 && (bits & 0x7f800000) == 0) bits &= 0x80000000;
      return bits;
    }
  }
}

u64 convert(u32 flags, u64 bits) {
  const Number to = static_cast<Number>(flags & 15), from = static_cast<Number>(flags >> 4 & 15);
  if (flags >> 16 & 1 && from == Number::f32 && (bits & 0x7f800000) == 0) bits &= 0x80000000;
  const Wide value = widen(from, bits);
  return is_float(to) ? to_float(value, to, flags)
                      : to_integer(value, to, flags >> 8 & 7, flags >> 12 & 1);
}

}  // namespace

void run_convert(Warp& warp, const Instruction& i, u32 mask) {
  const Number from = static_cast<Number>(i.flags >> 4 & 15),
               to = static_cast<Number>(i.flags & 15);
  const auto is_wide = [](Number n) {
    return n == Number::u64_ || n == Number::s64_ || n == Number::f64;
  };
  const bool pair = i.flags >> 14 & 1;  // d = {a, b}: b in the lower half
  FOR_LANES(lane, mask) {
    const u64 bits = is_wide(from) ? warp.wides(i.src[0])[lane] : warp.words(i.src[0])[lane];
    u64 result = convert(i.flags, bits);
    if (pair) result = result << 16 | (convert(i.flags, warp.words(i.src[1])[lane]) & 0xffff);
    // A signed result of 8 or 16 bits is extended when its register is wider.
    if (i.wide_value) {
      if (i.sign_extended && !is_wide(to)) result = static_cast<u64>(s64{static_cast<s32>(result)});
      warp.wides(i.dst[0])[lane] = result;
    } else if (to == Number::s8_) {
      warp.words(i.dst[0])[lane] = static_cast<u32>(s32{static_cast<s8>(result)});
    } else {
      warp.words(i.dst[0])[lane] = static_cast<u32>(result);
    }
  }
}

}  // namespace ptxsim
