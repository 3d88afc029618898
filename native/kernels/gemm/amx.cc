// Matrix products on AMX tiles: bfloat16, and float32 split into bfloat16 terms.
//
// A product of tiles takes 16 cycles: 16 times what AVX-512 multiplies in float32. With numbers as
// sums of three terms (amx_pack.h),
//
//     a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + O(2^-24 a b):
//
// six products for "highest", the first three for "high", one for "medium". Products of bfloat16
// are exact in float32, and a tile is rounded once for 32 of them. Within a block of k the small
// products are added first, to sums that are small as well; a1 b1 comes last.
//
// The loops around are pair_gemm.h's.
#include "pair_gemm.h"

namespace needle::NEEDLE_ISA {
namespace {

// Which terms are multiplied: first the small products, and from each to the next one operand stays
// in its tiles.
struct TermPair {
  int a, b;
};
template <int kTerms>
constexpr TermPair kProducts[] = {{0, 0}};
template <>
constexpr TermPair kProducts<2>[] = {{0, 1}, {1, 0}, {0, 0}};
template <>
constexpr TermPair kProducts<3>[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};

// Products kFirst to kLast of a step of k, added to tiles 0 to 3. With the first ones, the next
// step of A, which follows in memory, comes from the second-level cache to the first.
template <int kTerms, int kFirst, int kLast>
NEEDLE_INLINE void multiply_step(const bf16_t* a, const bf16_t* b) {
  constexpr int64_t kRow = kStep * sizeof(bf16_t), kNext = kTerms * kPanelStep;
  constexpr int64_t kLines = kFirst == 0 ? kNext / kStep / (kLast + 1) : 0;  // with each product
#pragma GCC unroll 6
  for (int p = kFirst; p <= kLast; ++p) {
    const TermPair now = kProducts<kTerms>[p], before = kProducts<kTerms>[p == 0 ? 0 : p - 1];
    const bf16_t* const a_tiles = a + now.a * kPanelStep;
    const bf16_t* const b_tiles = b + now.b * kPanelStep;
    for (int64_t line = p * kLines; line < (p + 1) * kLines; ++line) {
      __builtin_prefetch(a + kNext + line * kStep, 0, 3);
    }
    const bool is_new_a = p == kFirst || now.a != before.a;
    if (p == kFirst || now.b != before.b) {
      tile_load<6>(b_tiles, kRow);
      if (is_new_a) tile_load<4>(a_tiles, kRow);
      tile_multiply<0, 4, 6>();
      if (is_new_a) tile_load<5>(a_tiles + kTileSize, kRow);
      tile_multiply<2, 5, 6>();
      tile_load<7>(b_tiles + kTileSize, kRow);
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
    } else {
      tile_load<4>(a_tiles, kRow);
      tile_multiply<0, 4, 6>();
      tile_multiply<1, 4, 7>();
      tile_load<5>(a_tiles + kTileSize, kRow);
      tile_multiply<2, 5, 6>();
      tile_multiply<3, 5, 7>();
    }
  }
}

struct TileUnit {
  TileConfiguration configuration;

  template <int kTerms>
  void multiply(const bf16_t* a, const bf16_t* b, int64_t steps, const Block& to) const {
    constexpr int64_t kNext = kTerms * kPanelStep;
    constexpr int kLast = sizeof kProducts<kTerms> / sizeof(TermPair) - 1;
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
    for (int64_t s = 0; s < steps; ++s) {
      multiply_step<kTerms, 0, (kTerms > 1 ? kLast - 1 : 0)>(a + s * kNext, b + s * kNext);
    }
    for (int64_t s = 0; kTerms > 1 && s < steps; ++s) {
      multiply_step<kTerms, kLast, kLast>(a + s * kNext, b + s * kNext);
    }
    alignas(64) float sums[kPanel][kPanel];
    constexpr int64_t kRow = kPanel * sizeof(float);
    tile_store<0>(&sums[0][0], kRow);
    tile_store<1>(&sums[0][kSide], kRow);
    tile_store<2>(&sums[kSide][0], kRow);
    tile_store<3>(&sums[kSide][kSide], kRow);
    for (int64_t i = 0; i < to.rows; ++i) {
      for (int64_t j = 0; j < to.cols; j += kSide) {
        const Lanes<float> lanes(static_cast<int>(min_of(kSide, to.cols - j)));
        const Vec<float> sum = load(&sums[i][j]);
        float* const at = to.c + i * to.c_row + j;
        lanes.store(at, to.accumulate ? sum + lanes.load(at) : sum);
      }
    }
  }
};

// Smaller matrices do not fill tiles, or do not pay for the split. Estimated, not measured: at 2^26
// packing takes about a third as long as six products at the peak of tiles, and both together half
// as long as AVX-512 at its own.
constexpr int64_t kLeastSide = 64;
constexpr int64_t kLeastWork = int64_t{1} << 24, kLeastForSix = int64_t{1} << 26;

template <class E>
bool takes_amx(const Product<float>& p) {
  const bool is_six = !is_same<E, bf16_t> && matmul_precision() == MatmulPrecision::highest;
  return min_of(min_of(p.m, p.n), p.k) >= kLeastSide &&
         p.m * p.n * p.k >= (is_six ? kLeastForSix : kLeastWork);
}

template <class E>
void multiply_amx(const Product<float>& p, const Epilogue* epilogue) {
  if constexpr (!is_same<E, bf16_t>) {
    switch (matmul_precision()) {
      case MatmulPrecision::highest: return PairGemm<E, 3, TileUnit>(p, epilogue).run();
      case MatmulPrecision::high: return PairGemm<E, 2, TileUnit>(p, epilogue).run();
      case MatmulPrecision::medium: break;
    }
  }
  PairGemm<E, 1, TileUnit>(p, epilogue).run();
}

template <class E>
void multiply_or_amx(const Product<float>& p) {
  if (!takes_amx<E>(p)) return multiply_floats(p);
  multiply_amx<E>(p.along_rows(), nullptr);
}

void matmul_amx(const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  const bool has_tiles = out.dtype == DType::f32 || out.dtype == DType::bf16;
  if (!has_tiles || b.dtype != out.dtype) return matmul(out, a, b);
  const Unaliased left(a, out), right(b, out);
  const bool is_split = out.dtype == DType::f32;
  multiply_views<float>(out, left.view(), right.view(),
                        is_split ? multiply_or_amx<float> : multiply_or_amx<bf16_t>);
}

void matmul_then_amx(const TileProgram& program, const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const ThenOperands all = {program, operands};
  const int holder = all.holder();
  if (all.b().dtype != DType::f32) return matmul_then(program, operands);
  if (!takes_tiles(all, holder)) {
    return all.run_apart([&](const View& product) { matmul_amx(product, all.a(), all.b()); });
  }
  const Product<float> product = product_of(all, holder);
  if (!takes_amx<float>(product)) return matmul_then(program, operands);
  if (!program.is_elementwise) {  // blocks of tiles have no whole rows
    return all.run_apart([&](const View& out) { matmul_amx(out, all.a(), all.b()); });
  }
  const Epilogue epilogue = all.epilogue();
  multiply_amx<float>(product, &epilogue);
}

// Tiles take a factor that lies in memory.
void matmul_of_amx(const TileProgram& program, const TileProgram* then,
                   const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const OfOperands all = {program, then, operands};
  const View a = left_factor(all);
  const bool is_small = with_tiles(all, a, [&](const Product<float>& p, const Epilogue*) {
    return all.b().dtype != DType::f32 || !takes_amx<float>(p);
  });
  if (is_small) return matmul_of(program, then, operands);
  all.run_apart(a, [&](const View* const* v) {
    then == nullptr ? matmul_amx(*v[0], *v[1], *v[2]) : matmul_then_amx(*then, v);
  });
}

}  // namespace

extern const KernelTable amx_table;
constexpr KernelTable amx_table = [] {
#if defined(NEEDLE_WIDE)
  KernelTable kernels = make_table("wide-amx");
#else
  KernelTable kernels = make_table("amx");
#endif
  kernels.matmul = matmul_amx;
  kernels.matmul_then = matmul_then_amx;
  kernels.matmul_of = matmul_of_amx;
  return kernels;
}();

}  // namespace needle::NEEDLE_ISA
