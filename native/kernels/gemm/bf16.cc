// Matrix products of bfloat16 by AVX-512's dot products of pairs, vdpbf16ps: twice as many
// multiplications an instruction as of floats.
//
// The instruction adds two products to a float, rounded to nearest, and takes numbers
// below 2^-126 as zero. The loops around are pair_gemm.h's; only machines that have the instruction
// use this file's table (isa.cc).
#include "pair_gemm.h"

namespace needle::NEEDLE_ISA {
namespace {

struct DotUnit {
  template <int kTerms>
  void multiply(const bf16_t* a, const bf16_t* b, int64_t steps, const Block& to) const {
    static_assert(kTerms == 1);
    multiply_rows<0>(a, b, steps, to);
    if (to.rows > kGroup) multiply_rows<kGroup>(a, b, steps, to);
    if (to.rows > 2 * kGroup) multiply_rows<2 * kGroup>(a, b, steps, to);
  }

 private:
  static constexpr int kGroup = 11;  // rows, whose sums fill 22 of 32 registers

  // Rows of the block from kFirst on. A's tiles hold the pairs of a row in a row, B's those of 16
  // columns.
  template <int kFirst>
  [[gnu::target("avx512bf16")]] static void multiply_rows(const bf16_t* a, const bf16_t* b,
                                                          int64_t steps, const Block& to) {
    constexpr int kCount = kFirst + kGroup <= kPanel ? kGroup : kPanel - kFirst;
    __m512 acc[kCount][2] = {};
    for (int64_t s = 0; s < steps; ++s, a += kPanelStep, b += kPanelStep) {
#pragma GCC unroll 4
      for (int64_t p = 0; p < kSide; ++p) {
        const __m512bh left = load_pairs(b + p * kStep);
        const __m512bh right = load_pairs(b + kTileSize + p * kStep);
#pragma GCC unroll 11
        for (int i = 0; i < kCount; ++i) {
          const int64_t row = kFirst + i;
          int pair;
          __builtin_memcpy(&pair, a + row / kSide * kTileSize + row % kSide * kStep + 2 * p, 4);
          const __m512bh x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
          acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, left);
          acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, right);
        }
      }
    }
    const int64_t rows = min_of(kCount, to.rows - kFirst);
    for (int v = 0; v < 2 && v * kSide < to.cols; ++v) {
      const Lanes<float> lanes(static_cast<int>(min_of(kSide, to.cols - v * kSide)));
      float* at = to.c + kFirst * to.c_row + v * kSide;
#pragma GCC unroll 11
      for (int i = 0; i < kCount; ++i, at += to.c_row) {
        if (i < rows) lanes.store(at, to.accumulate ? acc[i][v] + lanes.load(at) : acc[i][v]);
      }
    }
  }

  [[gnu::target("avx512bf16")]] static __m512bh load_pairs(const bf16_t* from) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
  }
};

void multiply_or_dots(const Product<float>& p) {
  constexpr int64_t kLeastSide = 32, kLeastWork = int64_t{1} << 20;
  if (min_of(min_of(p.m, p.n), p.k) < kLeastSide || p.m * p.n * p.k < kLeastWork) {
    return multiply_floats(p);
  }
  PairGemm<bf16_t, 1, DotUnit>(p.along_rows(), nullptr).run();
}

void matmul_bf16(const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  if (out.dtype != DType::bf16 || b.dtype != out.dtype) return matmul(out, a, b);
  const Unaliased left(a, out), right(b, out);
  multiply_views<float>(out, left.view(), right.view(), multiply_or_dots);
}

}  // namespace

extern const KernelTable bf16_table;
constexpr KernelTable bf16_table = [] {
  KernelTable kernels = make_table("avx512bf16");
  kernels.matmul = matmul_bf16;
  return kernels;
}();

}  // namespace needle::NEEDLE_ISA
