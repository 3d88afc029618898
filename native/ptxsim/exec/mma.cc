// mma.sync: D = A B + C of a warp, 16 x 8 outputs, with A and B of k columns and rows.
//
// With group g = lane / 4 and t = lane % 4, registers of a lane hold of A rows g and g + 8, of B
// column g, of C and D rows g and g + 8, columns 2t and 2t + 1. A register of A or B holds 32 bits:
// E elements beside each other along k.
#include <bit>

#include "../lanes/half_bits.h"
#include "handlers.h"
#include "warp.h"

namespace ptxsim {
namespace {

constexpr u32 kRows = 16, kColumns = 8;

// Tensor cores multiply exactly and add in float32, in an order that is not published; here along
// k.
struct FloatTile {
  float a[kRows][32], b[32][kColumns];
};

float element(Mma type, u32 bits, u32 e) {
  if (type == Mma::f16) return F16::up(bits >> (16 * e));
  if (type == Mma::bf16) return BF16::up(bits >> (16 * e));
  return std::bit_cast<float>(bits & 0xffffe000);  // tf32 has 10 bits of mantissa
}

void multiply_floats(Warp& warp, const Instruction& i, Mma type, u32 k) {
  const u32 per = type == Mma::tf32 ? 1 : 2;  // elements of a register
  const u32 step = 4 * per;                   // columns of A in one pair of registers
  FloatTile tile;
  for (u32 l = 0; l < kLanes; ++l) {
    const u32 g = l / 4, t = l % 4;
    for (u32 part = 0; part < k / step; ++part) {
      for (u32 e = 0; e < per; ++e) {
        const u32 column = part * step + t * per + e;
        tile.a[g][column] = element(type, warp.words(i.src[2 * part])[l], e);
        tile.a[g + 8][column] = element(type, warp.words(i.src[2 * part + 1])[l], e);
        tile.b[column][g] = element(type, warp.words(i.src[2 * (k / step) + part])[l], e);
      }
    }
  }
  const u32 c = 3 * (k / step);
  const bool half = i.flags >> 12 & 1;  // C and D are pairs of float16
  float result[kRows][kColumns];
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 r = 0; r < 4; ++r) {
      float& to = result[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2];
      to = half ? F16::up(warp.words(i.src[c + r / 2])[l] >> (16 * (r % 2)))
                : warp.floats(i.src[c + r])[l];
    }
  for (u32 y = 0; y < kRows; ++y)
    for (u32 n = 0; n < k; ++n)
      for (u32 x = 0; x < kColumns; ++x) result[y][x] += tile.a[y][n] * tile.b[n][x];
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 r = 0; r < 4; ++r) {
      const float value = result[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2];
      if (!half) {
        warp.floats(i.dst[r])[l] = value;
      } else {
        u32& pair = warp.words(i.dst[r / 2])[l];
        pair = r % 2 ? (pair & 0xffff) | F16::down(value) << 16 : F16::down(value);
      }
    }
}

void multiply_integers(Warp& warp, const Instruction& i, bool is_signed, u32 k) {
  s32 a[kRows][32], b[32][kColumns], result[kRows][kColumns];
  const auto byte = [&](u32 slot, u32 lane, u32 e) -> s32 {
    const u32 bits = warp.words(slot)[lane] >> (8 * e) & 0xff;
    return is_signed ? static_cast<s8>(bits) : static_cast<s32>(bits);
  };
  const u32 parts = k / 16;
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 part = 0; part < parts; ++part)
      for (u32 e = 0; e < 4; ++e) {
        const u32 column = part * 16 + l % 4 * 4 + e;
        a[l / 4][column] = byte(i.src[2 * part], l, e);
        a[l / 4 + 8][column] = byte(i.src[2 * part + 1], l, e);
        b[column][l / 4] = byte(i.src[2 * parts + part], l, e);
      }
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 r = 0; r < 4; ++r)
      result[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2] =
          static_cast<s32>(warp.words(i.src[3 * parts + r])[l]);
  for (u32 y = 0; y < kRows; ++y)
    for (u32 n = 0; n < k; ++n)
      for (u32 x = 0; x < kColumns; ++x) result[y][x] += a[y][n] * b[n][x];
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 r = 0; r < 4; ++r)
      warp.words(i.dst[r])[l] = static_cast<u32>(result[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2]);
}

}  // namespace

void run_mma(Warp& warp, const Instruction& i, u32 mask) {
  if (mask != kAll)
    fail(warp, first_lane(mask), kLaunchFailed,
         "expected all 32 threads at mma.sync; some are absent");
  const u32 k = i.flags & 0xff;
  const Mma type = static_cast<Mma>(i.flags >> 8 & 15);
  if (type == Mma::s8 || type == Mma::u8)
    multiply_integers(warp, i, type == Mma::s8, k);
  else
    multiply_floats(warp, i, type, k);
}

}  // namespace ptxsim
